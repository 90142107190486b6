"""The pages on the server have every variable, limit, key and argument, with the value that it has."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from stateroom.api.app import make_app
from stateroom.boot import embedding
from stateroom.boot.compose import Server
from stateroom.boot.environment import VARIABLES
from stateroom.boot.langgraph_json import SILENT, WITHOUT_EFFECT
from stateroom.boot.sections import LIMITS
from stateroom.settings import Limits, Settings

DOCS = Path(__file__).parents[2] / "docs"
SERVER = (DOCS / "server.md").read_text(encoding="utf-8")
KEYS = (DOCS / "langgraph-json.md").read_text(encoding="utf-8")


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table whose head begins so."""
    (body,) = re.findall(rf"^\| {re.escape(heading)}[^\n]*\n\|[-|]+\n((?:\|.*\n)+)", page, flags=re.MULTILINE)
    return [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in body.splitlines()]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_variable_is_documented_in_the_order_in_which_its_names_count() -> None:
    documented = {tuple(names(cells[0])): cells[1].strip("`") for cells in rows(SERVER, "variable |")}
    assert list(documented) == [variable.names for variable in VARIABLES]
    limits = {variable.names: variable.field for variable in VARIABLES if "limits." in variable.field}
    assert {name: says for name, says in documented.items() if says.startswith("limits.")} == limits


def test_every_limit_is_documented_with_its_default_and_its_bounds() -> None:
    usual = Limits()
    shown = {
        name: [str(value) if value is None else f"{value:,}", f"{low:,}", f"{high:,}"]
        for name, (_, low, high) in LIMITS.items()
        for value in [getattr(usual, name)]
    }
    assert {cells[0].strip("`"): cells[1:4] for cells in rows(SERVER, "limit | default")} == shown
    assert set(LIMITS) == set(Limits.__slots__)


def test_every_argument_of_the_embedded_server_is_documented_with_its_default() -> None:
    documented: dict[str, str] = {}
    for cells in rows(SERVER, "argument | default"):
        documented |= dict.fromkeys(names(cells[0]), cells[1].strip("`"))
    makes = (embedding.embed_sqlite_graphs, embedding.embed_postgres_graphs, embedding._embedded)
    actual = {
        parameter.name: "required"
        if parameter.default is parameter.empty
        else repr(parameter.default).replace("'", '"')
        for make in makes
        for parameter in inspect.signature(make).parameters.values()
        if parameter.name not in ("options", "kind", "where")
    }
    assert documented == actual


def test_keys_without_effect_are_documented() -> None:
    documented: dict[str, str] = {}
    for cells in rows(KEYS, "key | instead"):
        documented |= dict.fromkeys(names(cells[0]), cells[1])
    assert documented == WITHOUT_EFFECT
    (silent,) = re.findall(r"^Silent, [^:]*: (.+?)\.\n", KEYS, flags=re.MULTILINE | re.DOTALL)
    assert set(names(silent)) == SILENT


def test_every_key_that_is_read_is_documented() -> None:
    code = (DOCS.parent / "src" / "stateroom" / "boot" / "langgraph_json.py").read_text(encoding="utf-8")
    read = set(re.findall(r'\.(?:text|flag|one_of|texts|mapping|section|reference)\(\s*"(\w+)"', code))
    documented = {
        part for name in names(re.sub(r"```.*?```", "", KEYS, flags=re.DOTALL)) for part in name.split(".")
    }
    assert read - documented == set()


def test_every_route_is_documented(tmp_path: Path) -> None:
    page = (DOCS / "http.md").read_text(encoding="utf-8")
    documented = [name for cells in rows(page, "route |") for name in names(cells[0])]
    assert len(documented) == len(set(documented))
    server = Server(Settings(base=tmp_path, storage="memory"))
    server.open()
    try:
        routes: list[Any] = list(make_app(server.parts).routes)
    finally:
        server.close()
    served = {
        f"{method} {route.path}"
        for route in routes
        if not route.path.startswith(("/docs", "/openapi"))
        for method in getattr(route, "methods", None) or ["WS"]
    }
    assert set(documented) == served
