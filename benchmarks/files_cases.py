"""The operations on files that are timed, each with what its right answer is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.files_data import COMMON, NEEDLE, Files
from benchmarks.measure import WRONG, Case

__all__ = ["cases"]

Check = Callable[[Any, Any, Any, bool], str | None]
Pairs = tuple[tuple[str, str], ...]


def cases(files: Files, pairs: Pairs, upload: int) -> list[Case]:
    """Return all operations, those that only we have last of those that read; writes come after reads."""
    alone = (("ours", "nobody"), *((one, "nobody") for one, _ in pairs if one == "adopted"))
    return [*_lists(files, pairs), *_finds(files, pairs), *_own(files, alone), *_writes(files, pairs, upload)]


def _lists(files: Files, pairs: Pairs) -> list[Case]:
    directory = files.directory()
    return [
        Case(
            "ls one directory",
            lambda store, _: store.ls(directory),
            check=_paths("entries", files.inside(directory)),
            pairs=pairs,
        ),
        Case("ls /", lambda store, _: store.ls("/"), check=_paths("entries", files.inside("")), pairs=pairs),
        _glob("*.md", "*.md", files, pairs),
        _glob("of 1 %", "f*00.md", files, pairs),
        Case(
            "glob *.md in one directory",
            lambda store, _: store.glob("*.md", directory),
            check=_paths("matches", files.inside(directory)),
            pairs=pairs,
        ),
    ]


def _glob(name: str, pattern: str, files: Files, pairs: Pairs) -> Case:
    check = _paths("matches", files.named(pattern))
    return Case(f"glob {name}", lambda store, _: store.glob(pattern), check=check, pairs=pairs)


def _finds(files: Files, pairs: Pairs) -> list[Case]:
    def one_line(_store: Any, _asked: Any, got: Any, _ours: bool) -> str | None:
        right = len(got.matches) == 1 and COMMON in got.matches[0]["text"] and got.truncated
        return None if right else WRONG

    def is_read(_store: Any, number: int, got: Any, _ours: bool) -> str | None:
        return None if got.file_data and got.file_data["content"] == files.text(number) else WRONG

    def read(store: Any, number: int) -> Any:
        return store.read(files.paths[number])

    return [
        Case(
            "grep a needle",
            lambda store, _: store.grep(NEEDLE),
            check=_paths("matches", files.holding(NEEDLE)),
            pairs=pairs,
        ),
        Case(
            "grep a word, max_count=1",
            lambda store, _: store.grep(COMMON, max_count=1),
            check=one_line,
            pairs=pairs,
        ),
        Case("read", read, lambda turn: turn * 7 % files.n, is_read, pairs=pairs),
    ]


def _own(files: Files, pairs: Pairs) -> list[Case]:
    def counted(_store: Any, _asked: Any, got: Any, _ours: bool) -> str | None:
        size = sum(len(files.text(number).encode()) for number in range(files.n))
        return None if got == (files.n, size) else f"{WRONG}: {got}"

    def found(_store: Any, _asked: Any, got: Any, _ours: bool) -> str | None:
        return None if got.matches and got.matches[0]["path"] == files.paths[files.needle] else WRONG

    return [
        Case("usage", lambda store, _: store.usage(), check=counted, pairs=pairs),
        Case("search a rare word", lambda store, _: store.search("needles"), check=found, pairs=pairs),
        Case("search common words", lambda store, _: store.search(f"{COMMON} tide"), pairs=pairs),
    ]


def _writes(files: Files, pairs: Pairs, upload: int) -> list[Case]:
    def edited(turn: int) -> tuple[str, str, str]:
        times, number = divmod(turn, files.n)
        old, new = (f"File {number}, round {each}\n" for each in (times, times + 1))
        return files.paths[number], old, new

    def text(turn: int) -> str:
        return files.text(turn % files.n)

    def gone(store: Any, turn: int) -> None:
        store.write(f"/gone/{turn}.md", "x")

    def missing(_store: Any, _asked: Any, got: Any, _ours: bool) -> str | None:
        return None if got.error else f"{WRONG}: it says that nothing was deleted"

    some = [(f"/up/{number}.md", files.text(number % files.n).encode()) for number in range(upload)]

    def uploaded(store: Any, _asked: Any, got: Any, ours: bool) -> str | None:
        right = len(got) == upload and all(response.error is None for response in got)
        if not right or not ours:
            return None if right else WRONG
        return None if len(store.ls("/up").entries) == upload else f"{WRONG}: not all are there"

    return [
        Case("edit", lambda store, edit: store.edit(*edit), edited, _is_edited, pairs=pairs),
        Case(
            "write over",
            lambda store, file: store.write(*file),
            lambda turn: (files.paths[turn % files.n], text(turn)),
            _is_written,
            pairs=pairs,
        ),
        Case(
            "write new",
            lambda store, file: store.write(*file),
            lambda turn: (f"/new/{turn}.md", text(turn)),
            _is_written,
            pairs=pairs,
        ),
        Case(
            "delete", lambda store, turn: store.delete(f"/gone/{turn}.md"), before=gone, pairs=pairs, most=200
        ),
        Case("delete, absent", lambda store, _: store.delete("/absent.md"), check=missing, pairs=pairs),
        Case(
            f"upload {upload:,}",
            lambda store, _: store.upload_files(some),
            check=uploaded,
            pairs=pairs,
            most=10,
        ),
    ]


def _paths(field: str, expected: set[str]) -> Check:
    def check(_store: Any, _asked: Any, got: Any, _ours: bool) -> str | None:
        paths = [one["path"] for one in getattr(got, field) or []]
        if len(paths) == len(expected) and set(paths) == expected:
            return None
        return f"{WRONG}: {len(set(paths) & expected)} of {len(expected)}, {len(paths)} answered"

    return check


def _is_edited(store: Any, edit: tuple[str, str, str], got: Any, _ours: bool) -> str | None:
    path, _, new = edit
    read = store.read(path).file_data
    right = got.error is None and got.occurrences == 1 and read and read["content"].startswith(new)
    return None if right else f"{WRONG}: {got.error}"


def _is_written(store: Any, file: tuple[str, str], got: Any, _ours: bool) -> str | None:
    read = store.read(file[0]).file_data
    return None if got.error is None and read and read["content"] == file[1] else f"{WRONG}: {got.error}"
