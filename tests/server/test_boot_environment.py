"""The environment is read strictly, and lies between the command line and the ``langgraph.json``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stateroom.boot.environment import VARIABLES, configure, read_environment, settings_from
from stateroom.errors import Misconfigured
from stateroom.settings import Limits, Settings

VALUES = {
    "storage": ("postgres", "postgres"),
    "sqlite_path": ("data/all.db", "data/all.db"),
    "synchronous": ("FULL", "FULL"),
    "postgres_uri": ("postgresql://user:p%40ss@host/db", "postgresql://user:p%40ss@host/db"),
    "postgres_schema": ("agents", "agents"),
    "prepared_statements": ("false", False),
    "http.host": ("10.0.0.1", "10.0.0.1"),
    "http.port": ("8080", 8080),
    "limits.concurrency": ("3", 3),
    "limits.lease": ("20", 20.0),
    "limits.max_attempts": ("5", 5),
    "limits.run_timeout": ("1.5", 1.5),
    "limits.shutdown_grace": ("0", 0.0),
    "limits.heartbeat": ("5", 5.0),
    "limits.page_size": ("50", 50),
    "limits.body_bytes": ("2048", 2048),
    "limits.frames_per_run": ("10", 10),
    "limits.bytes_per_run": ("1048576", 1048576),
    "limits.retained_runs": ("0", 0),
    "limits.idempotency_lifetime": ("60", 60.0),
}


def project(folder: Path, **content: Any) -> Path:
    file = folder / "langgraph.json"
    file.write_text(json.dumps({"graphs": {"agent": "./agent.py:graph"}, **content}))
    return file


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.field)
def test_every_name_of_every_variable_sets_its_field(variable: Any) -> None:
    text, value = VALUES[variable.field]
    for name in variable.names:
        assert read_environment({name: f" {text} "}) == ({variable.field: value}, [])
        assert read_environment({name: ""}) == ({}, [])
    settings = settings_from({variable.field: value})
    part, _, field = variable.field.rpartition(".")
    assert getattr(getattr(settings, part) if part else settings, field) == value


def test_every_limit_can_be_set() -> None:
    fields = {variable.field for variable in VARIABLES}
    assert {f"limits.{name}" for name in Limits.__slots__} <= fields


def test_of_several_names_the_first_that_is_set_counts() -> None:
    names = ("STATEROOM_POSTGRES_URI", "POSTGRES_URI", "DATABASE_URI", "DATABASE_URL")
    for first in range(len(names)):
        environment = {name: f"postgresql://{name}" for name in names[first:]}
        assert read_environment(environment)[0] == {"postgres_uri": f"postgresql://{names[first]}"}


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("PORT", "http", "a whole number from 0 to 65,535"),
        ("PORT", "65536", "a whole number from 0 to 65,535"),
        ("N_JOBS_PER_WORKER", "1.5", "a whole number from 1"),
        ("N_JOBS_PER_WORKER", "0", "a whole number from 1"),
        ("STATEROOM_RUN_TIMEOUT", "soon", "a number from"),
        ("STATEROOM_RUN_TIMEOUT", "nan", "a number from"),
        ("STATEROOM_RUN_TIMEOUT", "inf", "a number from"),
        ("STATEROOM_MAX_PAGE_SIZE", "-1", "a whole number from 1"),
        ("STATEROOM_SHUTDOWN_GRACE", "-1", "a number from 0"),
        ("STATEROOM_STORAGE", "redis", "memory, sqlite, postgres"),
        ("STATEROOM_SYNCHRONOUS", "OFF", "NORMAL, FULL"),
        ("STATEROOM_PREPARED_STATEMENTS", "maybe", "true or false"),
    ],
)
def test_a_malformed_variable_is_refused_by_its_name(name: str, value: str, fix: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        read_environment({name: value})
    assert caught.value.field == name
    assert fix in str(caught.value)


def test_a_variable_that_looks_like_ours_and_is_not_is_named() -> None:
    environment = {"STATEROOM_PAGE_SIZE": "5", "STATEROOM_TEST_POSTGRES": "18", "PATH": "/bin"}
    assert read_environment(environment) == (
        {},
        ["the variable STATEROOM_PAGE_SIZE is not known and has no effect"],
    )


def test_the_command_line_is_above_the_environment_is_above_the_file_is_above_the_default(
    tmp_path: Path,
) -> None:
    usual = {"http.port": 8123, "synchronous": "FULL"}
    ours = {"storage": "memory", "limits": {"concurrency": 2, "lease": 20}}
    file = project(tmp_path, stateroom=ours, env={"N_JOBS_PER_WORKER": "3", "PORT": "1"})
    found = configure(file, {"http.port": 3, "storage": None}, {"PORT": "2"}, **usual)
    settings = found.settings
    assert settings.http.port == 3
    assert settings.limits.concurrency == 3, "what env says is the environment's"
    assert settings.limits.lease == 20.0
    assert settings.limits.heartbeat == Limits().heartbeat
    assert (settings.storage, settings.synchronous) == ("memory", "FULL")
    assert configure(file, {}, {"PORT": "2"}, **usual).settings.http.port == 2
    assert configure(project(tmp_path), {}, {}, **usual).settings.http.port == 8123
    assert configure(project(tmp_path), {}, {}).settings == Settings(
        base=tmp_path, graphs={"agent": "./agent.py:graph"}
    )


def test_the_processs_environment_gets_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELD", "by the environment")
    monkeypatch.setenv("NEW", "")
    monkeypatch.delenv("NEW")
    file = project(tmp_path, env={"HELD": "by the file", "NEW": "by the file"})
    configure(file, {})
    assert (os.environ["HELD"], os.environ["NEW"]) == ("by the environment", "by the file")


@pytest.mark.parametrize(
    ("said", "environment", "ours", "storage", "says"),
    [
        ({}, {}, {}, "sqlite", False),
        ({"storage": "memory"}, {"STATEROOM_POSTGRES_URI": "postgresql://"}, {}, "memory", True),
        ({}, {"STATEROOM_POSTGRES_URI": "postgresql://"}, {}, "postgres", True),
        ({}, {"STATEROOM_POSTGRES_URI": "postgresql://"}, {"storage": "sqlite"}, "postgres", True),
        (
            {},
            {"STATEROOM_POSTGRES_URI": "postgresql://", "STATEROOM_STORAGE": "sqlite"},
            {},
            "sqlite",
            True,
        ),
        ({}, {"DATABASE_URL": "postgresql://"}, {}, "sqlite", False),
        ({}, {"DATABASE_URL": "postgresql://"}, {"storage": "postgres"}, "postgres", True),
    ],
)
def test_where_everything_is_kept(
    tmp_path: Path, said: Any, environment: Any, ours: Any, storage: str, says: bool
) -> None:
    found = configure(project(tmp_path, stateroom=ours), said, environment)
    assert (found.settings.storage, found.says_storage) == (storage, says)
