"""Glob patterns match what Deep Agents' own do, say how matches begin and end, and go on below a mount."""

from __future__ import annotations

import re
from collections.abc import Iterable

import bracex
import pytest
import wcmatch.glob
from hypothesis import assume, given
from hypothesis import strategies as st

from stateroom.errors import InvalidPattern
from stateroom.files.globs import ALTERNATIVES_MAX, compile_glob, residuals, spelled

TREE = [
    "a.py",
    "sub/b.py",
    "sub/nested/c.py",
    "readme.md",
    ".hidden.py",
    ".hidden/x.py",
    ".hidden/nested/y.py",
    ".github/workflows/ci.yml",
]


def matching(pattern: str, paths: Iterable[str] = TREE) -> set[str]:
    glob = compile_glob(pattern)
    return {path for path in paths if glob.matches(path)}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", {"a.py", "sub/b.py", "sub/nested/c.py", ".hidden/x.py", ".hidden/nested/y.py"}),
        ("**/*.py", {"a.py", "sub/b.py", "sub/nested/c.py"}),
        ("/*.py", {"a.py"}),
        ("./*.py", {"a.py"}),
        ("sub/*.py", {"sub/b.py"}),
        ("sub//*.py", {"sub/b.py"}),
        ("sub/**/*.py", {"sub/b.py", "sub/nested/c.py"}),
        ("sub/**", {"sub/b.py", "sub/nested/c.py"}),
        ("a.py/**", set()),
        ("sub/", set()),
        ("", set()),
        ("*.yml", {".github/workflows/ci.yml"}),
        ("**/*.yml", set()),
        (".github/**/*.yml", {".github/workflows/ci.yml"}),
        (".*.py", {".hidden.py"}),
        ("[.]hidden.py", set()),
        ("*.{md,yml}", {"readme.md", ".github/workflows/ci.yml"}),
        ("{sub,.hidden}/*.py", {"sub/b.py", ".hidden/x.py"}),
        ("{/sub,.hidden}/*.py", {"sub/b.py", ".hidden/x.py"}),
        ("?.py", {"a.py", "sub/b.py", "sub/nested/c.py", ".hidden/x.py", ".hidden/nested/y.py"}),
        ("[ab].py", {"a.py", "sub/b.py"}),
        ("[!a-b].py", {"sub/nested/c.py", ".hidden/x.py", ".hidden/nested/y.py"}),
        ("[^a-b].py", {"sub/nested/c.py", ".hidden/x.py", ".hidden/nested/y.py"}),
        ("[[:digit:]].py", set()),
    ],
)
def test_a_pattern_without_a_slash_is_of_names_and_one_with_it_of_paths(
    pattern: str, expected: set[str]
) -> None:
    assert matching(pattern) == expected


def test_a_backslash_takes_the_meaning_from_the_next_character() -> None:
    names = ["a*b", "aXb", "{a,b}", "a", "[a]"]
    assert matching(r"a\*b", names) == {"a*b"}
    assert matching(r"\{a,b\}", names) == {"{a,b}"}
    assert matching(r"\[a\]", names) == {"[a]"}


def test_hidden_names_are_matched_where_they_are_asked_for() -> None:
    secrets = compile_glob("/secrets/**", hidden=True)
    assert secrets.matches("secrets/.env")
    assert secrets.matches("secrets/.ssh/id")
    assert not secrets.matches("secrets")
    assert not compile_glob("/secrets/**").matches("secrets/.env")
    assert compile_glob("/**/*.pem", hidden=True).below(".ssh") == ["/**/*.pem"]


@pytest.mark.parametrize("pattern", ["../x", "a/../b", "a/..", "{.,x}./a", "a\\..\\b"])
def test_patterns_that_go_up_are_refused(pattern: str) -> None:
    with pytest.raises(
        InvalidPattern, match=re.escape(f"Path traversal not allowed in glob pattern {pattern!r}")
    ):
        compile_glob(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("{a,}" * 18, id="braces"),
        pytest.param("{a,b}" * 9 + "x" * 1000, id="characters"),
        pytest.param("{" * 4000 + "}" * 4000, id="nesting"),
        pytest.param("a" * 9000, id="length"),
        pytest.param("a\0", id="NUL"),
        pytest.param("a\ud800", id="surrogate"),
    ],
)
def test_what_cannot_be_a_pattern_is_refused_in_few_words(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match=r"^Invalid glob pattern '") as refused:
        compile_glob(pattern)
    assert refused.value.field == "pattern"
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("pattern", [None, 5, b"*.md", ["*.md"]])
def test_a_pattern_is_a_string(pattern: object) -> None:
    with pytest.raises(InvalidPattern, match="pass a string"):
        compile_glob(pattern)  # type: ignore[arg-type]


def test_as_many_alternatives_as_are_allowed_are_matched() -> None:
    assert compile_glob(f"{{1..{ALTERNATIVES_MAX}}}.md").matches(f"notes/{ALTERNATIVES_MAX}.md")


def test_no_pattern_takes_for_ever() -> None:
    assert not compile_glob("*a" * 60 + "b").matches("a" * 5000)
    assert not compile_glob("**/a/" * 60 + "b").matches("a/" * 2000 + "a")


@pytest.mark.parametrize(
    ("pattern", "prefix", "suffix"),
    [
        ("src/**/*.py", "src/", ".py"),
        ("*.md", "", ".md"),
        ("readme.md", "", "readme.md"),
        ("/a/b.md", "a/b.md", "a/b.md"),
        ("a/{b,c}/x.md", "a/", "/x.md"),
        ("**/a.md", "", "a.md"),
        ("a/x*y/b.md", "a/x", "y/b.md"),
        ("*.{yml,yaml}", "", "ml"),
        ("a/**", "a/", ""),
        ("{a,b}", "", ""),
        (r"a\*/b[c]", "a*/b", ""),
    ],
)
def test_what_matches_begins_and_ends_alike(pattern: str, prefix: str, suffix: str) -> None:
    glob = compile_glob(pattern)
    assert (glob.prefix, glob.suffix) == (prefix, suffix)


@pytest.mark.parametrize(
    ("pattern", "mount", "expected"),
    [
        ("*.md", "memories", ["*.md"]),
        ("/memories/**/*.md", "memories", ["/**/*.md"]),
        ("memories/*.md", "memories", ["/*.md"]),
        ("/*/*.md", "memories", ["/*.md"]),
        ("m*/**", "memories", ["/**/*"]),
        ("**/*.md", "memories/private", ["/**/*.md"]),
        ("**/private/*", "memories/private", ["/**/private/*", "/*"]),
        ("{memories,docs}/*.md", "memories", ["/*.md"]),
        ("/docs/*", "memories", []),
        ("/*.md", "memories", []),
        ("/memories", "memories", []),
        ("*/x", ".memories", []),
        ("**/*.md", ".memories", []),
        ("**/*.md", "memories/.private", []),
        ("**/.private/*", "memories/.private", ["/*"]),
        ("/a/b", "", ["/a/b"]),
        ("", "memories", []),
    ],
)
def test_what_is_left_of_a_pattern_below_a_mount(pattern: str, mount: str, expected: list[str]) -> None:
    assert residuals(pattern, mount) == expected


ATOMS = [
    *(
        "a",
        "b",
        "*",
        "?",
        "**",
        "[ab]",
        "[!a]",
        "[^.]",
        "[a-c]",
        ".",
        "md",
        "{a,b}",
        "{a/b,*.md}",
        r"\*",
        r"\a",
    ),
    *(
        "[",
        "]",
        "{",
        "}",
        ",",
        "[]a]",
        "[[:alpha:]]",
        "[[:nope:]]",
        "[c-a]",
        "[!c-a]",
        "-",
        "!",
        "[.]",
        "[--b]",
    ),
]
NAMES = [
    *(
        "a",
        "b",
        "ab",
        "a.md",
        "b.md",
        ".a",
        ".md",
        "x-y",
        "{a",
        "a]",
        "[b",
        "!a",
        "*a",
        r"a\b",
        "abc",
        "aa",
        "\n",
    ),
]
segments = st.one_of(st.just("**"), st.lists(st.sampled_from(ATOMS), min_size=1, max_size=3).map("".join))
patterns = st.builds(
    lambda start, parts: start + "/".join(parts),
    st.sampled_from(["", "/"]),
    st.lists(segments, min_size=1, max_size=5),
)
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=5).map("/".join)


@given(patterns, st.lists(paths, max_size=8))
def test_every_pattern_matches_what_deep_agents_match(pattern: str, some: list[str]) -> None:
    flags = wcmatch.glob.BRACE | wcmatch.glob.GLOBSTAR | wcmatch.glob.FORCEUNIX
    ours = compile_glob(pattern) if is_valid(pattern) else None
    assume(ours is not None)
    theirs = [re.compile(regex) for regex in wcmatch.glob.translate(pattern.lstrip("/"), flags=flags)[0]]
    # They match "." only where a path spells it, and nothing with a "/" at the start inside of braces.
    expanded = bracex.expand(pattern.lstrip("/"), keep_escapes=True)
    assume(not any("." in one.split("/") or one.startswith("/") for one in expanded))
    for path in some:
        seen = path if "/" in pattern else path.rpartition("/")[2]
        assert ours is not None
        assert ours.matches(path) == any(regex.fullmatch(seen) for regex in theirs)


@given(patterns, paths)
def test_every_match_begins_with_the_prefix_and_ends_with_the_suffix(pattern: str, path: str) -> None:
    assume(is_valid(pattern))
    glob = compile_glob(pattern)
    if glob.matches(path):
        assert path.startswith(glob.prefix)
        assert path.endswith(glob.suffix)


@given(patterns, paths, st.integers(0, 4), st.booleans())
def test_what_is_left_matches_below_a_mount_what_the_whole_matches(
    pattern: str, path: str, depth: int, hidden: bool
) -> None:
    assume(is_valid(pattern))
    glob, names = compile_glob(pattern, hidden=hidden), path.split("/")
    depth = min(depth, len(names) - 1)
    below = glob.below("/".join(names[:depth]))
    inner = "/".join(names[depth:])
    assert any(compile_glob(one, hidden=hidden).matches(inner) for one in below) == glob.matches(path)


@given(paths)
def test_a_path_that_is_spelled_out_matches_itself_alone(path: str) -> None:
    assert compile_glob("/" + spelled(path)).matches(path)
    assert not compile_glob("/" + spelled(path)).matches(path + "x")


def is_valid(pattern: str) -> bool:
    try:
        compile_glob(pattern)
    except InvalidPattern:
        return False
    return True
