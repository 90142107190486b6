"""The project's own rules of taste, read from its files.

A line may be excused by a comment on it, or on the line above it: the mark ``tidy:``, then
``allow <rule> because <reason>``. An exemption that excuses nothing is itself an offence.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import ChainMap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MARK = "tidy:"

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
TEST_FILE_LINES_MAX = 600


@dataclass(frozen=True)
class File:
    """One text file of the project, known by its path from the root."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def references(self) -> list[tuple[str, ast.expr]]:
        """Every name that is read, with where it was imported from spelled out, and its node."""
        origins = _origins(self.tree)
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name | ast.Attribute)]
        return [(name, node) for node in nodes if (name := _dotted(node, origins))]


Offences = Iterator[tuple[int, str]]


@dataclass(frozen=True)
class Rule:
    """A check, the files that it is for, a file that breaks it, and one that just keeps it."""

    check: Callable[[File], Offences]
    where: str
    bad: tuple[str, str]
    good: tuple[str, str]


def module_sentence(file: File) -> Offences:
    # Known limits or a specification may follow in paragraphs of their own.
    text = (ast.get_docstring(file.tree) or "").strip().partition("\n\n")[0]
    if not text:
        yield 1, "begin the module with one sentence that gives its one reason to exist"
    elif not text.endswith("."):
        yield 1, "end the module's sentence with a period"
    elif re.search(r"[.!?][\"')`]*\s", text):
        yield 1, "say why the module exists in one sentence, and no more"


def function_length(file: File) -> Offences:
    for node in ast.walk(file.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield node.lineno, f"{node.name} has {lines} lines; split it at {FUNCTION_LINES_MAX}"


def file_length(file: File) -> Offences:
    most = TEST_FILE_LINES_MAX if file.path.startswith(("tests/", "benchmarks/")) else FILE_LINES_MAX
    if len(file.lines) > most:
        yield 1, f"{len(file.lines)} lines; split the file at {most}"


BANNED = {
    "datetime.date.today": "take a clock",
    "datetime.datetime.now": "take a clock",
    "datetime.datetime.today": "take a clock",
    "datetime.datetime.utcnow": "take a clock",
    "logging.basicConfig": "leave the root logger to the application",
    "logging.root": "use logging.getLogger(__name__)",
    "print": "use a logger",
    "time.sleep": "wait on an event with a timeout",
}
BANNED |= {
    f"logging.{level}": "use logging.getLogger(__name__)"
    for level in ("critical", "debug", "error", "exception", "info", "log", "warning")
}
WALL_CLOCK = {"time.time": "take a clock", "time.time_ns": "take a clock"}
RANDOM_IDS = {"uuid.uuid1": "take the id from outside", "uuid.uuid4": "take the id from outside"}
# Where each may be used: in the one module that hands it out.
SOURCES = {"/clock.py": WALL_CLOCK, "/ids.py": RANDOM_IDS}


def banned_call(file: File) -> Offences:
    elsewhere = [names for source, names in SOURCES.items() if not file.path.endswith(source)]
    banned = dict(ChainMap(BANNED, *elsewhere))
    for name, node in file.references:
        if name in banned:
            yield node.lineno, f"{name}: {banned[name]}"
    for name, call in _calls(file):
        if name == "logging.getLogger" and (not call.args or _constant(call.args[0]) in {"", "root"}):
            yield call.lineno, "the root logger is the application's: use logging.getLogger(__name__)"


def sleep(file: File) -> Offences:
    for name, call in _calls(file):
        if name in {"asyncio.sleep", "time.sleep"} and not (call.args and _constant(call.args[0]) == 0):
            yield call.lineno, f"{name}: wait on an event with a timeout, or move a ManualClock"


def unfinished(file: File) -> Offences:
    yield from _matches(file, r"\b(?:TO[D]O|FIX[M]E|XX[X])\b", "finish it, or file an issue")


def machine_path(file: File) -> Offences:
    places = "|".join(re.escape(f"{place}/") for place in (ROOT, ROOT.parent, Path.home()) if place.name)
    yield from _matches(file, rf"{places}|\bfile:[/]{{3}}", "belongs to one machine; name nothing of it")


def lock_line(file: File) -> Offences:
    for number, line in enumerate(file.lines, 1):
        if not re.fullmatch(r"[a-z0-9-]+==[\w.+!]+( ; [^/]+)?", line):
            yield number, f"{line!r} is no `name==version`; a lock names no index, no path"


RULES = {
    "module-sentence": Rule(
        module_sentence,
        where=r"src/.*\.py",
        bad=("src/stateroom/a.py", '"""It stores. It also searches."""\n'),
        good=("src/stateroom/a.py", '"""What stores (items)\nby key."""\n'),
    ),
    "function-length": Rule(
        function_length,
        where=r".*\.py",
        bad=("src/stateroom/a.py", "async def f():\n" + "    g()\n" * FUNCTION_LINES_MAX),
        good=("src/stateroom/a.py", "async def f():\n" + "    g()\n" * (FUNCTION_LINES_MAX - 1)),
    ),
    "file-length": Rule(
        file_length,
        where=r".*\.py",
        bad=("src/stateroom/a.py", "f()\n" * (FILE_LINES_MAX + 1)),
        good=("src/stateroom/a.py", "f()\n" * FILE_LINES_MAX),
    ),
    "banned-call": Rule(
        banned_call,
        where=r"src/.*\.py",
        bad=("src/stateroom/a.py", "from datetime import datetime\nx = datetime.now()\n"),
        good=("src/stateroom/clock.py", "import time\nx = time.time_ns()\n"),
    ),
    "sleep": Rule(
        sleep,
        where=r"tests/.*\.py",
        bad=("tests/test_a.py", "import asyncio\nasync def f():\n    await asyncio.sleep(0.1)\n"),
        good=("tests/test_a.py", "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n"),
    ),
    "unfinished": Rule(
        unfinished,
        where=r".*",
        bad=("docs/a.md", "TO" + "DO: say more\n"),
        good=("docs/a.md", "Things to do: none. Todos and fixmes are no marks.\n"),
    ),
    "machine-path": Rule(
        machine_path,
        where=r".*",
        bad=("docs/a.md", f"See {ROOT}/docs.\n"),
        good=("docs/a.md", "See docs/ and /usr/share.\n"),
    ),
    "lock-line": Rule(
        lock_line,
        where=r"requirements.*\.lock",
        bad=("requirements-dev.lock", "--index-url https://example.org/simple\n"),
        good=("requirements-dev.lock", "numpy==2.4.6 ; python_full_version < '3.12'\nrich==15.0.0\n"),
    ),
}

MORE_BAD = [
    ("module-sentence", "src/stateroom/a.py", "import os\n"),
    ("module-sentence", "src/stateroom/a.py", '"""What stores items"""\n'),
    ("module-sentence", "src/stateroom/a.py", '"""What stores items\n\nAnd more."""\n'),
    ("file-length", "tests/test_a.py", "f()\n" * (TEST_FILE_LINES_MAX + 1)),
    ("banned-call", "src/stateroom/a.py", "import datetime as dt\nx = dt.datetime.now(dt.UTC)\n"),
    ("banned-call", "src/stateroom/a.py", "from time import time as now\nx = now()\n"),
    ("banned-call", "src/stateroom/a.py", "import time\ndef f(clock=time.time_ns): ...\n"),
    ("banned-call", "src/stateroom/clock.py", "import time\ntime.sleep(0)\n"),
    ("banned-call", "src/stateroom/a.py", "import uuid\nx = uuid.uuid4()\n"),
    ("banned-call", "src/stateroom/clock.py", "import uuid\nx = uuid.uuid4()\n"),
    ("banned-call", "src/stateroom/ids.py", "import time\nx = time.time()\n"),
    ("banned-call", "src/stateroom/a.py", "print('x')\n"),
    ("banned-call", "src/stateroom/a.py", "import logging\nlogging.warning('x')\n"),
    ("banned-call", "src/stateroom/a.py", "import logging\nlog = logging.getLogger()\n"),
    ("sleep", "tests/test_a.py", "from time import sleep\nsleep(DELAY)\n"),
    ("lock-line", "requirements-dev.lock", "thing @ https://example.org/thing.whl\n"),
]


def check(file: File) -> list[str]:
    """Return what is wrong with a file, one line an offence."""
    excused = _exemptions(file)
    used: set[tuple[int, str]] = set()
    found = []
    for name, rule in RULES.items():
        if not re.fullmatch(rule.where, file.path):
            continue
        for number, text in rule.check(file):
            excuse = next(((n, name) for n in (number, number - 1) if (n, name) in excused), None)
            if excuse:
                used.add(excuse)
            else:
                found.append(f"{file.path}:{number}: {name}: {text}")
    found += [f"{file.path}:{n}: exemption: {name} excuses nothing here" for n, name in excused - used]
    return found


@cache
def project_files() -> tuple[File, ...]:
    """Return the text files that belong to the project: all that git tracks or would track."""
    files = []
    for path in _project_paths():
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        if "\0" not in text:
            files.append(File(path, text))
    return tuple(files)


def test_project_is_tidy() -> None:
    offences = [offence for file in project_files() for offence in check(file)]
    assert not offences, "\n" + "\n".join(offences)


def test_check_sees_the_project() -> None:
    paths = {file.path for file in project_files()}
    assert {"Makefile", ".ci/run", "requirements-dev.lock", "src/stateroom/clock.py"} <= paths
    assert not [path for path in paths if path.startswith((".venv/", ".git/")) or "__pycache__" in path]


@pytest.mark.parametrize(
    ("name", "path", "text"), [*((name, *rule.bad) for name, rule in RULES.items()), *MORE_BAD]
)
def test_rule_refuses_what_breaks_it(name: str, path: str, text: str) -> None:
    assert f": {name}: " in "\n".join(check(File(path, text)))


@pytest.mark.parametrize("name", RULES)
def test_rule_allows_what_just_keeps_it(name: str) -> None:
    assert f": {name}: " not in "\n".join(check(File(*RULES[name].good)))


@pytest.mark.parametrize("above", [False, True])
def test_exemption_with_a_reason_excuses_its_line_or_the_next(above: bool) -> None:
    excuse = f"# {MARK} allow sleep because the port needs it"
    call = "time.sleep(1)"
    lines = [excuse, call] if above else [f"{call}  {excuse}"]
    assert check(File("tests/test_a.py", "\n".join(["import time", *lines, ""]))) == []


@pytest.mark.parametrize("excuse", ["allow sleep", "allow sleep because", "allow banned-call because it may"])
def test_exemption_without_a_reason_or_for_another_rule_excuses_nothing(excuse: str) -> None:
    file = File("tests/test_a.py", f"import time\ntime.sleep(1)  # {MARK} {excuse}\n")
    assert ": sleep: " in "\n".join(check(file))


def test_exemption_that_excuses_nothing_is_an_offence() -> None:
    file = File("tests/test_a.py", f"x = 1  # {MARK} allow sleep because it may\n")
    assert check(file) == ["tests/test_a.py:1: exemption: sleep excuses nothing here"]


def _project_paths() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0 and (ROOT / ".git").exists():
        return [path for path in listed.stdout.split("\0") if path]
    # An unpacked source distribution has no git: everything but what tools leave behind.
    paths = (path.relative_to(ROOT) for path in sorted(ROOT.rglob("*")))
    return [
        path.as_posix()
        for path in paths
        if "__pycache__" not in path.parts
        and (path.parts[0] == ".ci" or not path.parts[0].startswith("."))
        and (ROOT / path).is_file()
    ]


def _exemptions(file: File) -> set[tuple[int, str]]:
    pattern = re.compile(rf"(?:#|<!--) {MARK} allow ([a-z-]+) because \w")
    return {(n, match[1]) for n, line in enumerate(file.lines, 1) for match in pattern.finditer(line)}


def _matches(file: File, pattern: str, text: str) -> Offences:
    for number, line in enumerate(file.lines, 1):
        for match in re.finditer(pattern, line):
            yield number, f"{match[0]!r}: {text}"


def _origins(tree: ast.Module) -> dict[str, str]:
    origins = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                origins[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            origins |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return origins


def _dotted(node: ast.expr, origins: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return origins.get(node.id, node.id if node.id == "print" else None)
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value, origins)):
        return f"{base}.{node.attr}"
    return None


def _calls(file: File) -> Iterator[tuple[str, ast.Call]]:
    names = {id(node): name for name, node in file.references}
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and id(node.func) in names:
            yield names[id(node.func)], node


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None
