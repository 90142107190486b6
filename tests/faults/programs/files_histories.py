"""Histories of operations on files that follow from a seed, and what files are there after one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from stateroom.clock import ManualClock
from stateroom.files import StoreBackend
from stateroom.stores.base import Store

__all__ = ["contents", "files_at", "history", "operate"]

NAMESPACE = ("ana", "filesystem")
DIRECTORIES, FILES = 4, 12
WORDS = ["harbour", "tide", "lantern", "anchor", "gull", "rope", "café", "灯台", "keel"]
BINARY = b"\xff\xfe\x00keel"
KEPT = 6
OLD = timedelta(seconds=40)
"""The clock of a history moves on by a second with each operation."""

Operation = Callable[[StoreBackend], Any]


def files_at(store: Store, clock: ManualClock | None = None) -> StoreBackend:
    """Return the file system of a store that histories are about."""
    return StoreBackend(store=store, namespace=NAMESPACE, clock=clock or ManualClock())


def history(seed: int, number: int) -> Iterator[Operation]:
    """Yield so many operations, each of which changes files in one transaction or not at all."""
    dice = random.Random(seed)
    for _ in range(number):
        yield dice.choices(
            [_write, _edit, _edits, _upload, _delete, _delete_directory, _prune_many, _prune_old],
            [4, 4, 2, 8, 2, 0.3, 1, 1],
        )[0](dice)


def operate(files: StoreBackend, clock: ManualClock, operation: Operation) -> None:
    """Apply the next operation of a history, whether or not there is anything that it could change."""
    clock.advance(seconds=1)
    operation(files)


def contents(files: StoreBackend) -> dict[str, Any]:
    """Return every file's bytes and times, and what is found; check that all ways of looking agree."""
    infos = {info["path"]: info for info in files.glob("**").matches or []}
    read = {response.path: response.content or b"" for response in files.download_files(list(infos))}
    listed = [info for each in range(DIRECTORIES) for info in files.ls(f"/d{each}").entries or []]
    assert {info["path"]: info for info in listed} == infos, "ls and glob differ"
    for path, info in infos.items():
        assert info["size"] == len(read[path]), f"the size kept beside {path} is not that of what it holds"
        data = files.read(path).file_data
        assert data is not None
        assert data["modified_at"] == info["modified_at"], f"the time kept beside {path} is not what it says"
    assert files.usage() == (len(read), sum(map(len, read.values())))
    found = {
        word: {hit["path"] for hit in files.search(word, limit=1_000, mode="text").matches or []}
        for word in WORDS
    }
    lines = {word: files.grep(word).matches for word in WORDS}
    return {"files": read, "times": {p: i["modified_at"] for p, i in infos.items()}, **found, "lines": lines}


def _path(dice: random.Random) -> str:
    return f"/d{dice.randrange(DIRECTORIES)}/f{dice.randrange(FILES)}.md"


def _text(dice: random.Random) -> str:
    return "\n".join(" ".join(dice.choices(WORDS, k=4)) for _ in range(dice.randrange(1, 60)))


def _write(dice: random.Random) -> Operation:
    path, text = _path(dice), _text(dice)
    return lambda files: files.write(path, text)


def _edit(dice: random.Random) -> Operation:
    path, (old, new) = _path(dice), dice.sample(WORDS, 2)
    return lambda files: files.edit(path, old, f"{new} and {new}", replace_all=True)


def _edits(dice: random.Random) -> Operation:
    path, edits = _path(dice), [(*dice.sample(WORDS, 2), True) for _ in range(3)]
    return lambda files: files.multi_edit(path, edits)


def _upload(dice: random.Random) -> Operation:
    paths = {_path(dice) for _ in range(dice.randrange(2, 60))}
    some = [(path, BINARY if dice.random() < 0.2 else _text(dice).encode()) for path in sorted(paths)]
    return lambda files: files.upload_files(some)


def _delete(dice: random.Random) -> Operation:
    path = _path(dice)
    return lambda files: files.delete(path)


def _delete_directory(dice: random.Random) -> Operation:
    path = f"/d{dice.randrange(DIRECTORIES)}"
    return lambda files: files.delete(path)


def _prune_many(dice: random.Random) -> Operation:
    path = f"/d{dice.randrange(DIRECTORIES)}"
    return lambda files: files.prune(keep=KEPT, path=path, protect=["f0.md"])


def _prune_old(dice: random.Random) -> Operation:
    keep = dice.randrange(2 * KEPT)
    return lambda files: files.prune(older_than=OLD, keep=keep)
