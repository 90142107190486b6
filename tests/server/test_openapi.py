"""The document describes every route, and whatever fits it, or nearly, never breaks the server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import httpx
import pytest
import requests
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from stateroom.boot.compose import Server
from stateroom.settings import Settings
from tests.server.conftest import PATIENCE, Running, run_in_thread

EXAMPLES: Final = {GenerationMode.POSITIVE: 4, GenerationMode.NEGATIVE: 2}
"""Requests of each kind to each operation."""

ACCEPTED: Final = 0.75
"""How many operations, of all, accept a request that fits them; the rest are about what is not there."""


@pytest.fixture(scope="module")
def documented(new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """Return a server of its own, since what is tried leaves all sorts of things."""
    running = run_in_thread(Server(new_settings("sqlite")))
    yield running
    running.close()


@pytest.fixture(scope="module")
def document(documented: Running) -> dict[str, Any]:
    """Return the document as clients read it."""
    found: dict[str, Any] = httpx.get(f"{documented.url}/openapi.json").json()
    return found


def test_every_route_is_documented(documented: Running, document: dict[str, Any]) -> None:
    for route in documented.server.app.routes:
        if isinstance(route, APIRoute):
            for method in route.methods or ():
                assert method.lower() in document["paths"][route.path], f"{method} {route.path}"


def test_every_operation_says_what_it_does(document: dict[str, Any]) -> None:
    seen = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description"), f"{method} {path} says nothing"
            assert operation["operationId"] not in seen
            seen.add(operation["operationId"])
            assert operation["tags"] != []
            assert "4XX" in operation["responses"], f"{method} {path}"


def test_every_body_refuses_what_it_does_not_declare(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                for name in re.findall(r"#/components/schemas/(\w+)", str(content["schema"])):
                    assert schemas[name].get("additionalProperties") is False, f"{method} {path}: {name}"


@pytest.fixture(scope="module")
def ids(documented: Running) -> dict[str, str]:
    """Return ids of what is there, by the names that parameters and bodies call them."""
    with httpx.Client(base_url=documented.url, timeout=PATIENCE) as http:
        thread = http.post("/threads", json={}).json()["thread_id"]
        run = http.post(f"/threads/{thread}/runs", json={"assistant_id": "echo", "input": {}}).json()
        cron = http.post("/runs/crons", json={"assistant_id": "echo", "schedule": "0 0 29 2 *"}).json()
    made = {"thread_id": thread, "run_id": run["run_id"], "cron_id": cron["cron_id"]}
    return made | {"assistant_id": "echo", "graph_id": "echo", "schedule": "0 0 29 2 *"}


# The server is in this process, and graphs may well draw random numbers meanwhile.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_nothing_breaks_the_server(
    documented: Running, document: dict[str, Any], ids: dict[str, str], mode: GenerationMode
) -> None:
    seen: dict[str, Counter[int]] = {}
    schema = schemathesis.openapi.from_dict(document)
    with requests.Session() as http:
        for found in schema.get_all_operations():
            assert isinstance(found, Ok), found
            operation = found.ok()
            if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
                # A path is hardly ever wrong, and looking for one that is takes long.
                continue
            # What removes things comes to ids that nobody has.
            real = ids if operation.method != "delete" else {}
            seen[operation.label] = tried(http, documented.url, operation, mode, real)
    assert httpx.get(f"{documented.url}/ready").status_code == 200
    if mode is GenerationMode.POSITIVE:
        accepted = [label for label, statuses in seen.items() if any(one < 300 for one in statuses)]
        assert len(accepted) >= len(seen) * ACCEPTED, sorted(set(seen) - set(accepted))


def tried(
    http: requests.Session, url: str, operation: Any, mode: GenerationMode, ids: dict[str, str]
) -> Counter[int]:
    """Send requests that fit an operation, or do not; return how often each status was answered."""
    statuses: Counter[int] = Counter()

    @settings(
        max_examples=EXAMPLES[mode],
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def try_it(case: Any) -> None:
        name(case, ids)
        status = send(http, url, case)
        assert status < 500, case.as_curl_command()
        statuses[status] += 1

    # Where nothing is asked for, nothing wrong can be sent.
    with suppress(Unsatisfiable):
        try_it()
    return statuses


def name(case: Any, ids: dict[str, str]) -> None:
    """Have a request be about what is there, and a run be due at once."""
    case.path_parameters = {**(case.path_parameters or {})}
    bodies = case.body if isinstance(case.body, list) else [case.body]
    for place in (case.path_parameters, *(one for one in bodies if isinstance(one, dict))):
        place.update({key: one for key, one in ids.items() if key in place})
        place.pop("after_seconds", None)


def send(http: requests.Session, url: str, case: Any) -> int:
    """Send a request; return the status, without waiting for a stream to end."""
    with http.request(**case.as_transport_kwargs(base_url=url), stream=True, timeout=PATIENCE) as answered:
        return answered.status_code
