"""A ``langgraph.json`` is read as it is: a key is honoured, named in a warning, or refused with the fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateroom.boot.langgraph_json import SILENT, WITHOUT_EFFECT, Project, read_project
from stateroom.boot.sections import LIMITS
from stateroom.errors import Misconfigured
from stateroom.model.thread import ThreadTTL, TTLStrategy

GRAPHS = {"agent": "./agent.py:graph"}


def read(folder: Path, content: Any) -> Project:
    file = folder / "langgraph.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_project(file)


def refused(folder: Path, **content: Any) -> Misconfigured:
    with pytest.raises(Misconfigured) as caught:
        read(folder, {"graphs": GRAPHS, **content})
    return caught.value


def test_graphs_are_texts_or_have_a_description(tmp_path: Path) -> None:
    said = {"path": "package.module:make", "description": "Books trips."}
    project = read(tmp_path, {"graphs": {**GRAPHS, "trips": said}, "dependencies": [".", "./lib", "httpx"]})
    assert project.layer == {
        "base": tmp_path,
        "graphs": {"agent": "./agent.py:graph", "trips": "package.module:make"},
        "descriptions": {"trips": "Books trips."},
        "dependencies": (".", "./lib", "httpx"),
        "store": {},
        "http.disabled": frozenset(),
    }
    assert project.warnings == ()


def test_everything_that_is_honoured_becomes_a_setting(tmp_path: Path) -> None:
    cors = {"allow_origins": ["https://a.example"], "allow_credentials": True, "max_age": 600}
    layer = read(
        tmp_path,
        {
            "graphs": GRAPHS,
            "store": {"index": {"embed": "local"}, "ttl": {"default_ttl": 5}},
            "checkpointer": {
                "ttl": {"strategy": "keep_latest", "default_ttl": 60},
                "serde": {"pickle_fallback": True, "allowed_msgpack_modules": [["a.b", "C"]]},
            },
            "auth": {"path": "./auth.py:auth", "disable_studio_auth": True},
            "http": {
                "app": "./web.py:app",
                "cors": cors,
                "disable_crons": True,
                "disable_store": False,
                "disable_mcp": True,
                "disable_a2a": True,
                "configurable_headers": {"includes": ["x-*"], "excludes": ["x-secret"]},
                "middleware_order": "auth_first",
                "enable_custom_route_auth": True,
                "mount_prefix": "/agents",
            },
            "stateroom": {
                "storage": "postgres",
                "path": "data/all.db",
                "synchronous": "FULL",
                "schema": "agents",
                "pool": {"max_size": 5},
                "prepared_statements": False,
                "index_keys": ["topic"],
                "keep_graph_storage": True,
                "limits": {"concurrency": 3, "lease": 20, "run_timeout": None},
            },
        },
    )
    assert layer.warnings == ()
    found = layer.layer
    assert found["thread_ttl"].default == ThreadTTL(60.0, TTLStrategy.KEEP_LATEST)
    assert {name: value for name, value in found.items() if name not in ("thread_ttl", "base", "graphs")} == {
        "descriptions": {},
        "store": {"index": {"embed": "local"}, "ttl": {"default_ttl": 5}},
        "serde": {"pickle_fallback": True, "allowed_msgpack_modules": [["a.b", "C"]]},
        "auth_path": "./auth.py:auth",
        "studio_auth": False,
        "http.app": "./web.py:app",
        "http.cors": cors,
        "http.disabled": frozenset({"crons", "mcp", "a2a"}),
        "http.configurable_includes": ("x-*",),
        "http.configurable_excludes": ("x-secret",),
        "http.middleware_order": "auth_first",
        "http.custom_route_auth": True,
        "http.mount_prefix": "/agents",
        "storage": "postgres",
        "sqlite_path": "data/all.db",
        "synchronous": "FULL",
        "postgres_schema": "agents",
        "postgres_pool": {"max_size": 5},
        "prepared_statements": False,
        "index_keys": ("topic",),
        "keep_graph_storage": True,
        "limits.concurrency": 3,
        "limits.lease": 20.0,
    }


def test_what_builds_images_is_passed_over_and_what_has_no_effect_is_named(tmp_path: Path) -> None:
    silent = dict.fromkeys(SILENT, "x")
    assert read(tmp_path, {"graphs": GRAPHS, **silent}).warnings == ()
    without: dict[str, Any] = {key: {} for key in WITHOUT_EFFECT if "." not in key}
    auth = {"path": "./auth.py:auth", "cache": {}, "openapi": {}}
    http = {"logging_headers": {"includes": ["x-trace"]}}
    warnings = read(tmp_path, {"graphs": GRAPHS, **without, "auth": auth, "http": http}).warnings
    assert {warning.partition(" ")[0] for warning in warnings} == set(WITHOUT_EFFECT)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"grahps": {}}, "grahps"),
        ({"store": {"idnex": {}}}, "store.idnex"),
        ({"http": {"cros": {}}}, "http.cros"),
        ({"http": {"cors": {"allow_everything": True}}}, "http.cors.allow_everything"),
        ({"http": {"disable_ui": False}}, "http.disable_ui"),
        ({"checkpointer": {"backend": "x"}}, "checkpointer.backend"),
        ({"graphs": {"a": {"path": "./a.py:g", "tags": []}}}, "graphs.a.tags"),
    ],
)
def test_an_unknown_key_is_named_with_its_path(tmp_path: Path, content: Any, named: str) -> None:
    (warning,) = read(tmp_path, {"graphs": GRAPHS, **content}).warnings
    assert warning.startswith(f"{named} ")


@pytest.mark.parametrize(
    ("content", "field", "fix"),
    [
        ({"graphs": None}, "graphs", "agent.py:graph"),
        ({"graphs": []}, "graphs", "must be an object"),
        ({"graphs": {"a": "agent.py"}}, "graphs.a", "./file.py:name"),
        ({"graphs": {"a": 1}}, "graphs.a", "must be an object"),
        ({"graphs": {"a": {"description": "x"}}}, "graphs.a", "./file.py:name"),
        ({"dependencies": "."}, "dependencies", "a list of texts"),
        ({"env": 1}, "env", "must be an object"),
        ({"env": {"A": {}}}, "env.A", "write a text"),
        ({"env": "missing.env"}, "env", "there is no file"),
        ({"store": {"path": 1}}, "store.path", "write a text"),
        ({"store": {"index": []}}, "store.index", "write an object"),
        ({"checkpointer": {"path": "a.py"}}, "checkpointer.path", "./file.py:name"),
        ({"checkpointer": {"ttl": {"strategy": "x"}}}, "checkpointer.ttl.strategy", "keep_latest"),
        ({"checkpointer": {"serde": {"pickle_fallback": 1}}}, "checkpointer.serde.pickle_fallback", "true"),
        (
            {"checkpointer": {"serde": {"allowed_json_modules": ["a"]}}},
            "checkpointer.serde.allowed_json_modules",
            "a list of paths",
        ),
        ({"encryption": {"path": "./e.py:e"}}, "encryption", "encrypt the disk"),
        ({"auth": {"disable_studio_auth": True}}, "auth.path", "remove auth"),
        ({"auth": {"path": "auth.py"}}, "auth.path", "./file.py:name"),
        ({"http": {"mount_prefix": "agents"}}, "http.mount_prefix", "/agents"),
        ({"http": {"mount_prefix": "/agents/"}}, "http.mount_prefix", "/agents"),
        ({"http": {"middleware_order": "x"}}, "http.middleware_order", "auth_first"),
        ({"http": {"disable_runs": "yes"}}, "http.disable_runs", "true or false"),
        ({"http": {"cors": {"max_age": -1}}}, "http.cors.max_age", "a whole number from 0"),
        ({"http": {"configurable_headers": {"includes": "x"}}}, "http.configurable_headers.includes", "list"),
        ({"stateroom": {"storage": "redis"}}, "stateroom.storage", "memory, sqlite, postgres"),
        ({"stateroom": {"stroage": "memory"}}, "stateroom.stroage", "is not a setting"),
        ({"stateroom": {"limits": {"laese": 1}}}, "stateroom.limits.laese", "is not a setting"),
    ],
)
def test_a_wrong_value_is_refused_by_its_path_and_with_the_fix(
    tmp_path: Path, content: Any, field: str, fix: str
) -> None:
    error = refused(tmp_path, **content)
    assert error.field == field
    assert fix in str(error)
    assert field in str(error)


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_holds_on_both_sides(tmp_path: Path, name: str) -> None:
    kind, low, high = LIMITS[name]
    for value in (low, high):
        content = {"graphs": GRAPHS, "stateroom": {"limits": {name: value}}}
        assert read(tmp_path, content).layer[f"limits.{name}"] == value
    outside: list[object] = [low - (1 if kind is int else 0.0005), high + 1, "1", True]
    if kind is int:
        outside.append(low + 0.5)
    for wrong in outside:
        assert refused(tmp_path, stateroom={"limits": {name: wrong}}).field == f"stateroom.limits.{name}"


def test_the_environment_is_an_object_or_a_file_of_lines(tmp_path: Path) -> None:
    env = {"A": "text", "B": 1, "C": True, "D": None}
    assert read(tmp_path, {"graphs": GRAPHS, "env": env}).env == {"A": "text", "B": "1", "C": "true"}
    (tmp_path / "local.env").write_text("# a comment\nA=1\nexport B='two words'\nC=\nD\n")
    found = read(tmp_path, {"graphs": GRAPHS, "env": "local.env"}).env
    assert found == {"A": "1", "B": "two words", "C": ""}


def test_a_file_that_is_missing_or_no_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"langgraph\.json: No such file .*--config"):
        read_project(tmp_path / "langgraph.json")
    with pytest.raises(Misconfigured, match=r"langgraph\.json is no JSON: .* line 1"):
        read(tmp_path, "{graphs}")
    with pytest.raises(Misconfigured, match="the file must be an object"):
        read(tmp_path, [])
    assert read(tmp_path, "\ufeff" + json.dumps({"graphs": GRAPHS})).warnings == ()
