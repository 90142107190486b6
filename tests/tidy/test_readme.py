"""The code in the pages for users runs and says what it claims, and the page of settings is complete."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.store.base import TTLConfig
from langgraph.store.memory import InMemoryStore as LangGraphStore
from psycopg import sql
from psycopg.conninfo import make_conninfo

import stateroom
from stateroom import AegisStore, Capability, InMemoryStore, PostgresStore, SqliteStore
from stateroom.drivers.postgres import hnsw, migrations, pgvector, text_statistics, upkeep, vectors, where
from stateroom.drivers.postgres.database import ATTEMPTS, POOL_OPTIONS
from stateroom.files import CompositeBackend, PermittedBackend, StateBackend, StoreBackend, file_tools
from stateroom.model import limits
from stateroom.model.ttl import TTLSettings
from stateroom.search import analysis, fusion, local
from stateroom.search.index_config import MAX_DIMS, MAX_HNSW_DIMS, IndexSettings
from stateroom.stores.base import Store
from stateroom.stores.foreign import from_base_store

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
WITH_CODE = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
CLAIMING = [
    "README.md",
    "docs/checkpoints.md",
    "docs/files.md",
    "docs/migrating.md",
    "docs/postgres.md",
    "docs/quickstart.md",
    "docs/search.md",
    "docs/server.md",
    "docs/settings.md",
    "docs/storage.md",
    "docs/ttl.md",
]
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
POSTGRES = (ROOT / "docs" / "postgres.md").read_text(encoding="utf-8")
CONFORMANCE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
ADDRESS = "postgresql://app:secret@localhost/app"
"""Where pages say that a database is; they are run with a new one on the tests' server in its place."""

BACKENDS = [StoreBackend, StateBackend, CompositeBackend, PermittedBackend, file_tools]
STORES = [
    thing
    for thing in (getattr(stateroom, name) for name in stateroom.__all__)
    if isinstance(thing, type) and issubclass(thing, Store) and thing is not Store
]
CUT = {
    "TERM_LENGTH_MAX": analysis,
    "QUERY_TERMS_MAX": analysis,
    "CANDIDATES": fusion,
    "TEXT_LENGTH_MAX": local,
}


def blocks(text: str) -> list[tuple[int, str]]:
    """Return the python blocks of a page, each with the number of its first line."""
    found = re.finditer(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [(text[: match.start()].count("\n") + 2, match[1]) for match in found]


@contextmanager
def new_database(uri: str, name: str) -> Iterator[str]:
    """Make an empty database on a server, and lend its address."""
    with psycopg.connect(uri, autocommit=True) as connection:
        database = sql.Identifier(name)
        connection.execute(sql.SQL("create database {}").format(database))
        try:
            yield make_conninfo(uri, dbname=name)
        finally:
            connection.execute(sql.SQL("drop database {} with (force)").format(database))


def run_page(text: str, name: str) -> int:
    """Run a page's blocks as one program; return how many claims (``# -> repr``) it made, all true."""
    names: dict[str, Any] = {"__name__": "__page__"}
    claims = made = 0
    try:
        for line, code in blocks(text):
            lines = code.splitlines()
            made += code.count("# -> ")
            for node in ast.parse(code).body:
                ast.increment_lineno(node, line - 1)
                claimed = re.search(r"# -> (.+)$", lines[(node.end_lineno or 0) - line])
                if isinstance(node, ast.Expr) and claimed:
                    value = eval(compile(ast.Expression(node.value), name, "eval"), names)  # noqa: S307
                    assert repr(value) == claimed[1], f"{name}:{node.lineno}: it is {value!r}"
                    claims += 1
                else:
                    exec(compile(ast.Module([node], []), name, "exec"), names)  # noqa: S102
    finally:
        for thing in names.values():
            if isinstance(thing, Store):
                thing.close()
    assert claims == made, f"{name}: {made - claims} claims stand where nothing checks them"
    return claims


def section(text: str, heading: str) -> str:
    (body,) = [
        part for part in re.split(r"^## ", text, flags=re.MULTILINE) if part.partition("\n")[0] == heading
    ]
    return body


def table(heading: str, page: str = SETTINGS) -> dict[str, list[str]]:
    """Return the rows of the tables below a heading of a page: name, then the other cells."""
    rows = [
        re.split(r"(?<!\\) \| ", line.strip("| "))
        for line in section(page, heading).splitlines()
        if line.startswith("| `")
    ]
    return {name.strip(" `"): [cell.strip() for cell in cells] for name, *cells in rows}


def shown_default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return "required"
    return getattr(parameter.default, "__name__", None) or repr(parameter.default).replace("'", '"')


def default_of(cell: str) -> object:
    return ast.literal_eval(cell.strip("`"))


def settings_of(kind: type[Any], *, but: str = "") -> dict[str, Any]:
    usual = kind()
    names = [field.name for field in dataclasses.fields(kind) if field.name != but]
    values = {name: getattr(usual, name) for name in names}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_of_a_page_runs_and_says_what_it_claims(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    if f'"{ADDRESS}"' not in text:
        assert run_page(text, page.name) == text.count("# -> ")
        return
    # Only these pages need a server.
    server = request.getfixturevalue("postgres")
    with new_database(server, f"page_{page.stem.lower()}_{os.getpid()}") as address:
        assert run_page(text.replace(f'"{ADDRESS}"', repr(address)), page.name) == text.count("# -> ")


def test_pages_name_one_database_and_no_other() -> None:
    for page in WITH_CODE:
        for _, code in blocks(page.read_text(encoding="utf-8")):
            assert set(re.findall(r"\"(postgres\w*://[^\"]+)\"", code)) <= {ADDRESS}, page


@pytest.mark.parametrize("page", CLAIMING)
def test_every_page_for_users_says_what_its_code_gives(page: str) -> None:
    assert "# -> " in (ROOT / page).read_text(encoding="utf-8")


def test_readme_needs_no_more_than_twenty_lines_of_code() -> None:
    ((_, code), *_) = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len([line for line in code.splitlines() if line.strip()]) <= 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_install_commands_name_extras_that_exist(page: Path) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r"pip install \"(?:stateroom|\.)\[([\w,]+)\]\"", page.read_text(encoding="utf-8"))
    for extra in {extra for extras in named for extra in extras.split(",")}:
        assert re.search(rf"^{extra} = \[", text, flags=re.MULTILINE), extra


def test_a_false_claim_and_a_broken_block_are_seen() -> None:
    assert run_page("```python\nx = 1\n```\ntext\n```python\nx + 1  # -> 2\n```\n", "page.md") == 1
    with pytest.raises(AssertionError, match=r"page.md:2: it is 2"):
        run_page("```python\n1 + 1  # -> 3\n```\n", "page.md")
    with pytest.raises(AssertionError, match="1 claims stand where nothing checks them"):
        run_page("```python\nx = 1  # -> 2\n```\n", "page.md")
    with pytest.raises(ZeroDivisionError):
        run_page("```python\n1 / 0\n```\n", "page.md")


@pytest.mark.parametrize("make", [*STORES, from_base_store, *BACKENDS], ids=lambda make: make.__name__)
def test_every_argument_of_a_store_is_documented_with_its_default(make: Callable[..., Any]) -> None:
    documented = {name: cells[0].strip("`") for name, cells in table(make.__name__).items()}
    parameters = inspect.signature(make).parameters.values()
    assert documented == {parameter.name: shown_default(parameter) for parameter in parameters}


def test_every_argument_of_from_conn_string_is_documented() -> None:
    for store in (SqliteStore, PostgresStore):
        for name in inspect.signature(store.from_conn_string).parameters:
            assert re.search(rf"\b{name}\b", table_free_text(store.__name__)), (store, name)


def test_every_default_of_the_pool_is_documented() -> None:
    documented = {name: cells[0].strip("`") for name, cells in table("The pool", POSTGRES).items()}
    numbers = {name: f"{value:g}" for name, value in POOL_OPTIONS.items() if isinstance(value, (int, float))}
    assert documented == numbers


def test_numbers_of_the_page_on_postgres_are_those_of_the_code() -> None:
    page = " ".join(POSTGRES.split())
    for claim in (
        f"about {hnsw.EXACT_ALWAYS:,}, or {hnsw.EXACT_CANDIDATES:,}",
        f"build is, every {hnsw.PROGRESS_SECONDS:.0f} seconds",
        f"From {vectors.MERGE_FROM:,} such vectors",
        f"{vectors.MERGE_VECTORS} a statement",
        f"After {migrations.LOCK_SECONDS:.0f} seconds",
        f"every {upkeep.WRITES_BETWEEN} writes",
        f"up to {where.INDEXED_KEY_BYTES_MAX} bytes",
        f"first {where.INDEXED_TEXT_MAX} characters",
        f"up to {where.INDEXED_CHOICES_MAX} choices",
        f"more than {text_statistics.STATISTICS_EXACT:,} documents",
        f"as {text_statistics.PUTS_SHARE * 100:.0f} % of",
        f"after {text_statistics.AGE_MAX // 1_000_000} seconds",
        f"up to {pgvector.MAX_COLUMN_DIMS:,} numbers",
        f"beyond {pgvector.HALFVEC_GREATEST:,.0f}",
        f"up to {MAX_HNSW_DIMS['vector']:,} (`vector`) or {MAX_HNSW_DIMS['halfvec']:,} (`halfvec`)",
        f"{ATTEMPTS} times",
    ):
        assert claim in page, claim
    assert f"{where.INDEXED_KEY_BYTES_MAX} bytes" in table("PostgresStore")["index_keys"][1]


def test_capabilities_are_documented_as_they_are_declared(tmp_path: Path) -> None:
    stores = {
        "`InMemoryStore`": InMemoryStore(),
        "`SqliteStore` on a file": SqliteStore(tmp_path / "a.db"),
        '`SqliteStore(":memory:")`': SqliteStore(),
        "[`PostgresStore`](postgres.md)": PostgresStore(ADDRESS),
        "[`AegisStore`](aegis.md)": AegisStore(),
    }
    heading = "What the stores here declare"
    documented = table(heading, CONFORMANCE)
    assert " | ".join(["| capability", *stores]) in section(CONFORMANCE, heading)
    assert {name: cells[:-1] for name, cells in documented.items()} == {
        capability.name: ["yes" if capability in store.capabilities else "no" for store in stores.values()]
        for capability in Capability
    }
    foreign = from_base_store(LangGraphStore()).capabilities
    for name, (*_, says) in documented.items():
        assert says in ("the store's", "yes" if Capability[name] in foreign else "no"), name


def table_free_text(heading: str) -> str:
    lines = section(SETTINGS, heading).splitlines()
    return "\n".join(line for line in lines if not line.startswith("|"))


def test_every_key_of_index_is_documented_with_its_default() -> None:
    documented = {name: default_of(cells[0]) for name, cells in table("index").items()}
    assert documented == settings_of(IndexSettings, but="index_config")


def test_every_key_of_ttl_is_documented_with_its_default() -> None:
    documented = {name: default_of(cells[0]) for name, cells in table("ttl").items()}
    assert documented == settings_of(TTLSettings) | {"omit_expired": True}
    assert set(documented) >= set(TTLConfig.__annotations__)


def test_every_limit_is_documented_with_its_value() -> None:
    documented = {name: int(cells[0].replace(",", "")) for name, cells in table("Limits").items()}
    refused = {name: getattr(limits, name) for name in limits.__all__ if name.isupper()}
    assert documented == refused | {name: getattr(module, name) for name, module in CUT.items()}
    assert f"1 to {MAX_DIMS:,}" in table("index")["dims"][1]
