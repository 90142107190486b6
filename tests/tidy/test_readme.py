"""The code in the pages for users runs and says what it claims, and the page of settings is complete."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import TTLConfig

from stateroom import InMemoryStore, SqliteStore
from stateroom.model import limits
from stateroom.model.ttl import TTLSettings
from stateroom.search import analysis, fusion, local
from stateroom.search.index_config import MAX_DIMS, IndexSettings
from stateroom.stores.base import Store

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
WITH_CODE = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
CLAIMING = ["README.md", "docs/quickstart.md", "docs/search.md", "docs/settings.md", "docs/ttl.md"]
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
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


def table(heading: str) -> dict[str, list[str]]:
    """Return the rows of the tables below a heading of the settings page: name, then the other cells."""
    section = re.split(r"^## ", SETTINGS, flags=re.MULTILINE)
    (body,) = [part for part in section if part.partition("\n")[0] == heading]
    rows = [
        re.split(r"(?<!\\) \| ", line.strip("| ")) for line in body.splitlines() if line.startswith("| `")
    ]
    return {name.strip(" `"): [cell.strip() for cell in cells] for name, *cells in rows}


def default_of(cell: str) -> object:
    return ast.literal_eval(cell.strip("`"))


def settings_of(kind: type[Any], *, but: str = "") -> dict[str, Any]:
    usual = kind()
    names = [field.name for field in dataclasses.fields(kind) if field.name != but]
    values = {name: getattr(usual, name) for name in names}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_of_a_page_runs_and_says_what_it_claims(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert run_page(text, page.name) == text.count("# -> ")


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


@pytest.mark.parametrize("store", [InMemoryStore, SqliteStore], ids=lambda store: store.__name__)
def test_every_argument_of_a_store_is_documented_with_its_default(store: type[Store]) -> None:
    documented = {name: cells[0].strip("`") for name, cells in table(store.__name__).items()}
    parameters = inspect.signature(store).parameters.values()
    actual = {
        parameter.name: (
            getattr(parameter.default, "__name__", None) or repr(parameter.default).replace("'", '"')
        )
        for parameter in parameters
    }
    assert documented == actual


def test_every_argument_of_from_conn_string_is_documented() -> None:
    for name in inspect.signature(SqliteStore.from_conn_string).parameters:
        assert re.search(rf"\b{name}\b", table_free_text("SqliteStore")), name


def table_free_text(heading: str) -> str:
    body = SETTINGS.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(line for line in body.splitlines() if not line.startswith("|"))


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
