"""Many who work on the same files at once."""

from __future__ import annotations

import asyncio

from stateroom.testing.files_harness import Files, FilesHarness
from stateroom.testing.harness import MEET, Script, ask

__all__ = ["FilesConcurrencySuite"]

CALLERS = 8
EDITS = 6


class FilesConcurrencySuite(FilesHarness):
    """An edit that reports success is in the file, however many others edit it."""

    def test_edits_of_one_file_at_once_are_all_kept(self, files: Files) -> None:
        files.write("/n.md", "HEAD|\n")

        def editor(number: int) -> Script:
            yield MEET
            made = []
            for part in range(EDITS):
                item = f"{number}-{part}"
                result = yield ask("edit", "/n.md", "HEAD|", f"HEAD|\n{item}")
                assert result.error is None, result.error
                made.append(item)
            return made

        outcomes = files.together([editor(number) for number in range(CALLERS)])
        head, *kept = files.text("/n.md").splitlines()
        assert head == "HEAD|"
        assert sorted(kept) == sorted(item for made in outcomes for item in made)
        assert len(kept) == CALLERS * EDITS

    def test_of_edits_of_the_same_text_just_one_succeeds(self, files: Files) -> None:
        files.write("/n.md", "free")

        def claim(number: int) -> Script:
            yield MEET
            return (yield ask("edit", "/n.md", "free", f"taken by {number}"))

        outcomes = files.together([claim(number) for number in range(CALLERS)])
        winners = [number for number, result in enumerate(outcomes) if result.error is None]
        assert len(winners) == 1
        assert files.text("/n.md") == f"taken by {winners[0]}"
        assert {result.error for result in outcomes} == {None, "Error: String not found in file: 'free'"}

    def test_several_edits_are_made_with_no_other_in_between(self, files: Files) -> None:
        files.write("/n.md", "left 0\nright 0\n")

        def count() -> Script:
            yield MEET
            for _ in range(EDITS):
                shown = (yield ask("read", "/n.md")).file_data["content"]
                number = int(shown.split()[1])
                assert shown == f"left {number}\nright {number}\n"
                edits = [(f"{side} {number}", f"{side} {number + 1}") for side in ("left", "right")]
                yield ask("multi_edit", "/n.md", edits)

        assert files.together([count() for _ in range(CALLERS)]) == [None] * CALLERS
        left, right = files.text("/n.md").splitlines()
        assert left.removeprefix("left") == right.removeprefix("right")
        assert int(left.split()[1]) >= EDITS

    def test_writers_of_different_files_lose_nothing(self, files: Files) -> None:
        def writer(number: int) -> Script:
            yield MEET
            for part in range(EDITS):
                result = yield ask("write", f"/{number}/{part}.md", str(part))
                assert result.error is None
                listed = yield ask("ls", f"/{number}")
                assert len(listed.entries) == part + 1
            yield ask("delete", f"/{number}/0.md")

        assert files.together([writer(number) for number in range(CALLERS)]) == [None] * CALLERS
        assert files.usage()[0] == CALLERS * (EDITS - 1)

    def test_event_loops_one_after_the_other_may_use_one_backend(self, files: Files) -> None:
        backend = files.system.backend
        files.write("/n.md", "HEAD|")

        async def edit(number: int) -> None:
            edits = [backend.aedit("/n.md", "HEAD|", f"HEAD|\n{number}-{part}") for part in range(EDITS)]
            assert [result.error for result in await asyncio.gather(*edits)] == [None] * EDITS

        for number in range(3):
            asyncio.run(edit(number))
        assert len(files.text("/n.md").splitlines()) == 1 + 3 * EDITS

    def test_threads_and_tasks_may_edit_one_file_at_once(self, files: Files) -> None:
        backend = files.system.backend
        files.write("/n.md", "HEAD|")

        async def both() -> list[str | None]:
            threads = [
                asyncio.to_thread(backend.edit, "/n.md", "HEAD|", f"HEAD|\nthread {n}") for n in range(EDITS)
            ]
            tasks = [backend.aedit("/n.md", "HEAD|", f"HEAD|\ntask {n}") for n in range(EDITS)]
            return [result.error for result in await asyncio.gather(*threads, *tasks)]

        assert asyncio.run(both()) == [None] * EDITS * 2
        assert len(files.text("/n.md").splitlines()) == 1 + 2 * EDITS
