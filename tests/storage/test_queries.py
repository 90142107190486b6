"""The statements that are kept in files: all of them are used, and every database understands them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.drivers.sql.dialect import Row
from stateroom.drivers.sql.queries import queries
from stateroom.drivers.sql.run_rows import SQL as RUNS
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.testing.storage_harness import OpensStorage

SOURCE = Path(str(files("stateroom")))
FOLDER = SOURCE / "drivers" / "sql" / "queries"
TOPICS = sorted(path.stem for path in FOLDER.iterdir())
PARAMETER = re.compile(r"(?<![:\w]):(\w+)")
LIST = re.compile(r"\{each (?:bigint )?:(\w+)\}")


def statements(topic: str) -> Mapping[str, str]:
    """Return a topic's statements as they are run, for one of the statuses that a run may have."""
    if topic != "runs":
        return queries(topic)
    return {name: sql.replace("{one}", "'pending'") for name, sql in RUNS.items()}


@cache
def modules() -> Mapping[str, ast.Module]:
    """Return the modules by their names."""
    paths = [path for path in SOURCE.rglob("*.py") if "testing" not in path.parts]
    return {
        ".".join(("stateroom", *path.relative_to(SOURCE).with_suffix("").parts)): ast.parse(path.read_text())
        for path in paths
    }


def loaded(tree: ast.Module) -> set[str]:
    """Return the topics that a module loads."""
    return {
        str(node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "queries"
        and isinstance(node.args[0], ast.Constant)
    }


def used_by(tree: ast.Module) -> set[str]:
    """Return the topics that a module loads, or has from one that does."""
    topics = loaded(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and {"SQL", "_SQL"} & {alias.name for alias in node.names}:
            topics |= loaded(modules()[str(node.module)])
    return topics


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield as patterns the texts in a module, in which anything may stand for what is filled in."""
    words = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.append(re.escape(node.value))
        elif isinstance(node, ast.JoinedStr) and any(isinstance(part, ast.Constant) for part in node.values):
            yield "".join(
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w*"
                for part in node.values
            )
    yield from words
    if any(isinstance(node, ast.Subscript) and isinstance(node.slice, ast.BinOp) for node in ast.walk(tree)):
        # Some names are two of the texts, one after the other.
        either = "|".join(word for word in set(words) if re.fullmatch(r"\w+", word))
        yield f"({either})({either})"


def called(tree: ast.Module) -> Iterator[str]:
    """Yield the names by which a module looks statements up, where they are written out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            held = node.value.func if isinstance(node.value, ast.Call) else node.value
            if isinstance(held, ast.Name) and held.id in {"SQL", "_SQL", "queries"}:
                yield str(node.slice.value)


def test_names_and_statements_are_read_from_a_file() -> None:
    claim = queries("idempotency")["claim"]
    assert claim.startswith("insert into stateroom.idempotency as held")
    assert claim.endswith("expires_at")
    assert not any(sql.endswith(";") or "-- name:" in sql for sql in queries("idempotency").values())
    assert queries("idempotency") is queries("idempotency")


@pytest.mark.parametrize("topic", TOPICS)
def test_each_name_is_one_statement(topic: str) -> None:
    text = (FOLDER / f"{topic}.sql").read_text()
    assert len(queries(topic)) == len(re.findall(r"^-- name:", text, re.MULTILINE)) > 0
    assert all(sql and ";" not in re.sub(r"--.*", "", sql) for sql in queries(topic).values())


@pytest.mark.parametrize("topic", TOPICS)
def test_each_statement_is_used(topic: str) -> None:
    spelled = [
        re.compile(text) for tree in modules().values() if topic in used_by(tree) for text in texts(tree)
    ]
    unused = [name for name in queries(topic) if not any(text.fullmatch(name) for text in spelled)]
    assert unused == []


def test_each_statement_that_is_used_exists() -> None:
    missing = [
        (module, name)
        for module, tree in modules().items()
        for name in called(tree)
        if not any(name in queries(topic) for topic in used_by(tree))
    ]
    assert missing == []


def test_the_check_sees_statements_that_are_used() -> None:
    assert {"claim", "release"} <= set(called(modules()["stateroom.drivers.sql.idempotency"]))
    assert used_by(modules()["stateroom.drivers.sql.runs"]) == {"runs"}


def explained(storage: SqlStorage, sql: str) -> list[Row]:
    """Return how a statement would be carried out, whatever its parameters."""
    parameters: dict[str, Any] = dict.fromkeys(PARAMETER.findall(sql))
    parameters |= {name: [] for name in LIST.findall(sql)}
    parameters.pop("now", None)
    return storage.dialect.read(lambda session: session.fetch(f"explain {sql}", parameters))


def test_every_database_understands_each_statement(any_storage: OpensStorage) -> None:
    storage = any_storage(clock=ManualClock())
    storage.open()
    assert isinstance(storage, SqlStorage)
    for topic in TOPICS:
        for name, sql in statements(topic).items():
            try:
                steps = explained(storage, sql)
            except Exception as error:
                raise AssertionError(f"{topic}.{name}: {error}") from error
            assert steps, f"{topic}.{name}"
    storage.close()
