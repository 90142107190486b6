"""The pages on storage and checkpoints have every argument, limit and word with the value that it has."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from stateroom import PostgresSaver, SqliteSaver
from stateroom.contract.events import EventLimits
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.model import private_keys
from stateroom.model.run import Multitask
from stateroom.model.thread import TTLStrategy
from stateroom.model.thread_ttl import ThreadTTLSettings

DOCS = Path(__file__).parents[2] / "docs"
STORAGE = (DOCS / "storage.md").read_text(encoding="utf-8")
CHECKPOINTS = (DOCS / "checkpoints.md").read_text(encoding="utf-8")


def rows(page: str, heading: str) -> dict[str, str]:
    """Return the first cells of the table whose head begins so: each name with its default."""
    (body,) = re.findall(rf"^\| {re.escape(heading)}[^\n]*\n\|[-|]+\n((?:\|.*\n)+)", page, flags=re.MULTILINE)
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in body.splitlines()]
    return {name: default for name, default, *_ in cells}


def defaults(*makes: Any) -> dict[str, str]:
    """Return the arguments that any of some classes takes, with their defaults as they are written."""
    return {
        parameter.name: shown(parameter)
        for make in makes
        for parameter in inspect.signature(make).parameters.values()
    }


def shown(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return "required"
    named = getattr(parameter.default, "__name__", None)
    return named or repr(parameter.default).replace("'", '"')


def test_every_argument_of_a_storage_is_documented_with_its_default() -> None:
    documented = rows(STORAGE, "argument of `SqliteStorage`, `PostgresStorage`")
    assert documented == defaults(SqliteStorage, PostgresStorage)


def test_every_argument_of_a_saver_is_documented_with_its_default() -> None:
    assert rows(CHECKPOINTS, "argument") == defaults(SqliteSaver, PostgresSaver)


def test_every_key_of_the_ttl_of_threads_is_documented_with_its_default() -> None:
    usual = ThreadTTLSettings()
    assert rows(STORAGE, "key of `checkpointer.ttl`") == {
        "default_ttl": repr(usual.default),
        "strategy": f'"{usual.strategy}"',
        "sweep_interval_minutes": repr(usual.sweep_interval_minutes),
        "sweep_limit": repr(usual.sweep_limit),
    }
    assert len(dataclasses.fields(ThreadTTLSettings)) == 4


def test_limits_of_frames_are_those_of_the_code() -> None:
    usual = EventLimits()
    assert rows(STORAGE, "limit") == {
        "frames of a run": f"{usual.frames_per_run:,}",
        "bytes of a run": f"{usual.bytes_per_run // 2**20} MiB",
        "ended runs with frames": f"{usual.retained_runs:,}",
    }


@pytest.mark.parametrize(
    ("head", "names"), [("`multitask`", Multitask), ("strategy", TTLStrategy)], ids=["multitask", "strategy"]
)
def test_every_choice_is_documented(head: str, names: Any) -> None:
    assert set(rows(STORAGE, head)) == {str(name) for name in names}


def test_every_word_of_a_credential_is_documented() -> None:
    (words,) = re.findall(r"by one of these\nwords: (.*?)\. So", CHECKPOINTS, flags=re.DOTALL)
    assert set(re.findall(r"`(\w+)`", words)) == private_keys._PRIVATE_WORDS | {"api_key"}
