"""The config that graphs get: the assistant's, the run's over it, and what only the server says."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from stateroom.engine import run_config as run_configs
from stateroom.engine.run_config import AuthUser, public_config, run_config
from stateroom.model.assistant import Assistant
from stateroom.model.run import Multitask, Run, RunStatus
from stateroom.model.run_kwargs import RunKwargs, RunPrivate
from stateroom.savers.attempts import ATTEMPT_KEY
from stateroom.savers.metadata import PRIVATE_KEYS_KEY

RUN_ID = "11111111-1111-4111-8111-111111111111"


def a_run(**changes: Any) -> Run:
    """Return a run that has been claimed for the second time."""
    nothing: dict[str, Any] = dict.fromkeys(Run.__slots__)
    told = {
        "run_id": RUN_ID,
        "thread_id": "t",
        "assistant_id": "assistant",
        "assistant_version": 1,
        "status": RunStatus.RUNNING,
        "multitask": Multitask.ENQUEUE,
        "metadata": {"mine": "m"},
        "attempt": 2,
        "fence": 7,
    }
    return Run(**{**nothing, **told, **changes})


def an_assistant(**changes: Any) -> Assistant:
    told: dict[str, Any] = {"config": {}, "context": {}, "metadata": {"created_by": "system", "owner": "ann"}}
    return Assistant("assistant", "graph", "name", 1, 0, 0, None, **{**told, **changes})


def config_of(
    kwargs: RunKwargs | None = None,
    private: RunPrivate | None = None,
    *,
    forks: bool = True,
    **assistant: Any,
) -> Any:
    """Return the config of a run."""
    return run_config(
        a_run(), an_assistant(**assistant), kwargs or RunKwargs(), private or RunPrivate(), forks=forks
    )


def test_what_the_run_says_is_over_the_assistants() -> None:
    below = {
        "tags": ["a", "b"],
        "recursion_limit": 10,
        "max_concurrency": 2,
        "configurable": {"model": "small", "depth": 1},
        "metadata": {"from": "assistant", "kept": 1},
    }
    above = {
        "tags": ["b", "c"],
        "recursion_limit": 25,
        "run_name": "named",
        "configurable": {"model": "large"},
        "metadata": {"from": "run"},
        "callbacks": ["dropped"],
        "run_id": "dropped",
        "other": "goes into configurable",
        "max_concurrency": None,
    }
    found = config_of(RunKwargs(config=above), config=below)
    assert found["tags"] == ["a", "b", "c"]
    assert (found["recursion_limit"], found["max_concurrency"], found["run_name"]) == (25, 2, "named")
    assert {key: found["configurable"][key] for key in ("model", "depth", "other")} == {
        "model": "large",
        "depth": 1,
        "other": "goes into configurable",
    }
    assert "callbacks" not in found
    assert {key: found["metadata"][key] for key in ("from", "kept", "mine")} == {
        "from": "run",
        "kept": 1,
        "mine": "m",
    }
    # The assistant, which is kept for other runs, stays as it was.
    assert below["tags"] == ["a", "b"]


def test_only_the_server_says_who_runs_what() -> None:
    forged = dict.fromkeys(("thread_id", "run_id", "graph_id", "assistant_id", ATTEMPT_KEY), "forged")
    config = {"configurable": {**forged, "langgraph_auth_user_id": "forged"}, "metadata": forged}
    private = RunPrivate(
        user={"identity": "ann", "permissions": ["read"]}, configurable={"thread_id": "forged"}
    )
    found = config_of(RunKwargs(config=config), private)
    assert found["run_id"] == UUID(RUN_ID)
    named = {"thread_id": "t", "run_id": RUN_ID, "graph_id": "graph", "assistant_id": "assistant"}
    for key, value in named.items():
        assert found["configurable"][key] == found["metadata"][key] == value
    assert found["configurable"][ATTEMPT_KEY] == a_run().lease
    assert found["configurable"]["langgraph_auth_user_id"] == "ann"
    assert found["configurable"]["langgraph_auth_permissions"] == ["read"]
    assert found["metadata"]["run_attempt"] == 2
    assert found["metadata"]["created_by"] == "system"
    assert found["metadata"]["langgraph_version"]
    # What else an assistant's owner has noted is nobody's business.
    assert "owner" not in found["metadata"]


def test_what_is_private_is_in_configurable_and_named_as_such() -> None:
    private = RunPrivate(context={"a": "context"}, configurable={"x-tenant": "acme", "model": "private"})
    found = config_of(RunKwargs(config={"configurable": {"model": "public"}}), private)
    assert found["configurable"]["x-tenant"] == "acme"
    assert found["configurable"]["model"] == "private"
    assert found["configurable"][PRIVATE_KEYS_KEY] == {"x-tenant", "model"}
    assert "acme" not in str(found["metadata"])
    assert "context" not in str(found)


@pytest.mark.parametrize("forks", [True, False])
def test_a_checkpoint_is_named_only_where_the_run_starts_from_it(forks: bool) -> None:
    checkpoint = {
        "checkpoint_id": "c",
        "checkpoint_ns": "",
        "checkpoint_map": {"": "c"},
        "thread_id": "other",
    }
    found = config_of(RunKwargs(checkpoint=checkpoint), forks=forks)["configurable"]
    assert found["thread_id"] == "t"
    assert (found.get("checkpoint_id"), found.get("checkpoint_map")) == (
        ("c", {"": "c"}) if forks else (None, None)
    )


def test_strict_resume_and_tracing_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # The real one begins to look for LangSmith.
    monkeypatch.setattr(run_configs, "LangChainTracer", dict)
    assert "__pregel_strict_resume" not in config_of()["configurable"]
    assert config_of(RunKwargs(strict_resume=True))["configurable"]["__pregel_strict_resume"] is True
    assert "callbacks" not in config_of()
    tracer = {"project_name": "mine", "example_id": "e"}
    assert config_of(RunKwargs(tracer=tracer))["callbacks"] == [tracer]


def test_what_a_thread_shows_is_public() -> None:
    config = {"tags": ["a"], "configurable": {"model": "m", "api_key": "secret"}, "recursion_limit": 5}
    assert public_config(a_run(), an_assistant(), RunKwargs(config=config)) == {
        "tags": ["a"],
        "recursion_limit": 5,
        "configurable": {
            "model": "m",
            "thread_id": "t",
            "run_id": RUN_ID,
            "graph_id": "graph",
            "assistant_id": "assistant",
        },
    }


def test_a_user_is_met_by_attributes_and_by_keys() -> None:
    user = AuthUser({"identity": "ann", "token": "secret", "permissions": ["read"]})
    assert (user.identity, user["identity"], user.token, user.permissions) == (
        "ann",
        "ann",
        "secret",
        ["read"],
    )
    assert (user.is_authenticated, user.display_name) == (True, "ann")
    assert "token" in user
    assert set(user) >= {"identity", "token"}
    assert len(user) == 5
    with pytest.raises(AttributeError, match="nothing"):
        _ = user.nothing
    with pytest.raises(KeyError):
        _ = user["nothing"]
    assert "secret" not in f"{user!r} {user}"
