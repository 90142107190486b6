"""Made-up files, and what every right answer about them is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fnmatch import fnmatchcase

__all__ = ["COMMON", "NEEDLE", "Files"]

NEEDLE = "the needle is here"
"""A text that one file holds."""

COMMON = "harbour"
"""A word that most files hold."""

BYTES = 1_024
LINE_WORDS = 9
_WORDS = f"{COMMON} tide lantern anchor gull rope sail storm keel pilot quay buoy chart mast".split()


class Files:
    """So many files of 1 KB in 70 directories, the same each time."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.paths = [f"/d{number % 10}/s{number % 7}/f{number}.md" for number in range(n)]
        self.needle = n // 2

    def text(self, number: int) -> str:
        """Return the text of a file; its first line says how often it has been edited."""
        dice = random.Random(number)
        lines = [f"File {number}, round 0"]
        if number == self.needle:
            lines.append(NEEDLE)
        size = sum(len(line) + 1 for line in lines)
        while size < BYTES:
            line = " ".join(dice.choices(_WORDS, k=LINE_WORDS))[: BYTES - size]
            lines.append(line)
            size += len(line) + 1
        return "\n".join(lines)

    def uploads(self, size: int = 1_000) -> Iterator[list[tuple[str, bytes]]]:
        """Yield all files, so many at a time."""
        for start in range(0, self.n, size):
            numbers = range(start, min(start + size, self.n))
            yield [(self.paths[number], self.text(number).encode()) for number in numbers]

    def directory(self) -> str:
        """Return a directory with one seventieth of the files."""
        return self.paths[self.n // 3].rpartition("/")[0]

    def inside(self, directory: str) -> set[str]:
        """Return what is in a directory."""
        below = [path.removeprefix(directory) for path in self.paths if path.startswith(f"{directory}/")]
        names = {rest[: rest.find("/", 1) + 1] or rest for rest in below}
        return {f"{directory}{name}" for name in names}

    def named(self, pattern: str) -> set[str]:
        """Return the files whose names match."""
        return {path for path in self.paths if fnmatchcase(path.rpartition("/")[2], pattern)}

    def holding(self, text: str) -> set[str]:
        """Return the files that hold a text."""
        return {path for number, path in enumerate(self.paths) if text in self.text(number)}
