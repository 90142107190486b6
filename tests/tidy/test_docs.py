"""The documents say what the code says, and point at what exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from stateroom import errors

ROOT = Path(__file__).parents[2]
DOCS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
DECISIONS = ROOT / "docs" / "decisions"


class Row(NamedTuple):
    """What a row of docs/errors.md claims about one class."""

    code: str
    name: str
    retryable: str
    also: frozenset[str]


def error_classes() -> list[type[errors.StateroomError]]:
    named = [getattr(errors, name) for name in errors.__all__]
    return [thing for thing in named if isinstance(thing, type) and issubclass(thing, errors.StateroomError)]


def documented_errors(text: str) -> set[Row]:
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return {
        Row(code.strip(" `"), name.strip(" `"), retryable.strip(), frozenset(re.findall(r"`(\w+)`", also)))
        for code, name, retryable, also, *_ in rows
    }


def actual_row(error: type[errors.StateroomError]) -> Row:
    foreign = [base for base in error.__mro__ if base.__module__ != errors.__name__]
    also = frozenset(base.__name__ for base in foreign if base not in Exception.__mro__)
    return Row(error.code, error.__name__, "yes" if error.retryable else "no", also)


def newest_headings(text: str) -> list[str]:
    return re.findall(r"^## \[(.+?)\]", text, flags=re.MULTILINE)


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are linked by."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """Return the links to files that are not there, and to headings that a page does not have."""
    dead = []
    for target, anchor in re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)", prose(page)):
        path = page.parent / target if target else page
        if ":" in target:
            continue
        if not path.exists():
            dead.append(target)
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            dead.append(f"{target}#{anchor}")
    return dead


def test_every_error_is_documented_as_it_is() -> None:
    documented = documented_errors((ROOT / "docs" / "errors.md").read_text(encoding="utf-8"))
    assert documented == {actual_row(error) for error in error_classes()}


def test_every_public_error_class_is_exported() -> None:
    defined = {
        name for name, thing in vars(errors).items() if getattr(thing, "__module__", "") == errors.__name__
    }
    assert defined == {error.__name__ for error in error_classes()}


def test_no_two_errors_share_a_code() -> None:
    codes = [error.code for error in error_classes()]
    assert len(codes) == len(set(codes))


def test_changelog_is_headed_by_unreleased_or_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    headings = newest_headings((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert headings[0] in {"Unreleased", version}
    released = [heading for heading in headings if heading != "Unreleased"]
    assert released[:1] in ([], [version])


def test_index_of_decisions_lists_every_page_once_in_order() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    pages = sorted(page.name for page in DECISIONS.glob("[0-9]*.md"))
    assert re.findall(r"^- \[.+?\]\((\d{4}-[\w-]+\.md)\)", index, flags=re.MULTILINE) == pages


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# The `top` of it, all\n[self](page.md#the-top-of-it-all) [web](https://example.org#x) "
        "[gone](gone.md) [top](#the-top-of-it-all) [below](#below) [there](page.md#there)\n"
        "```\n# below\n```\n"
    )
    assert dead_links(page) == ["gone.md", "#below", "page.md#there"]


def test_a_row_that_lacks_or_misstates_an_error_is_seen() -> None:
    row = "| `conflict` | `Conflict` | yes | `ValueError`, `OSError` | When. | What. |"
    assert documented_errors(f"# Errors\n| code | class |\n|---|---|\n{row}\n") == {
        Row("conflict", "Conflict", "yes", frozenset({"ValueError", "OSError"}))
    }
    assert actual_row(errors.Conflict) == Row("conflict", "Conflict", "no", frozenset())


def test_headings_of_a_changelog_are_read_in_order() -> None:
    assert newest_headings("# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-30\n") == [
        "Unreleased",
        "0.1.0",
    ]
