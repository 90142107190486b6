"""How many files and bytes there may be."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.errors import Misconfigured
from stateroom.testing.files_harness import FilesHarness, OpensFiles, optional

__all__ = ["FilesLimitsSuite"]

WRONG: list[Any] = [-1, True, 1.5, "5", [5]]


class FilesLimitsSuite(FilesHarness):
    """``max_files`` and ``max_bytes``: what would go beyond is refused, what shrinks never is."""

    @optional
    def test_there_are_no_more_files_than_allowed(self, opens: OpensFiles) -> None:
        files = opens.able(max_files=2)
        files.write("/a", "x")
        files.write("/d/b", "x")
        error = files.refused("write", "/c", "x")
        assert "no more than 2" in error
        assert "'/c' was not written" in error
        files.write("/a", "more and more")
        files.edit("/d/b", "x", "longer")
        files.ok("delete", "/a")
        files.write("/c", "x")
        files.refused("write", "/a", "")
        assert files.usage()[0] == 2

    @optional
    def test_there_are_no_more_bytes_than_allowed(self, opens: OpensFiles) -> None:
        files = opens.able(max_bytes=10)
        files.write("/a", "é" * 3)
        files.write("/b", "1234")
        assert files.usage() == (2, 10)
        for method, path, *arguments in (
            ("write", "/c", "x"),
            ("write", "/b", "12345"),
            ("edit", "/b", "1", "11"),
            ("edit", "/b", "1", "é"),
        ):
            error = files.refused(method, path, *arguments)
            assert "11 bytes" in error
            assert "no more than 10" in error
        assert files.refused("multi_edit", "/b", [("1", ""), ("2", "222")])
        files.write("/c", "")
        files.edit("/b", "1", "x")
        files.write("/b", "123")
        files.write("/c", "1")
        assert files.usage() == (3, 10)

    @optional
    def test_uploads_are_counted_one_by_one(self, opens: OpensFiles) -> None:
        files = opens.able(max_files=3, max_bytes=10)
        given = [
            ("/a", b"12345"),
            ("/b", b"123456"),
            ("/c", b"\xff\xfe"),
            ("/d", b""),
            ("/e", b""),
            ("/c", b"123"),
        ]
        responses = files.call("upload_files", given)
        assert [response.error is None for response in responses] == [True, False, True, True, False, True]
        assert files.usage() == (3, 8)

    @optional
    def test_what_shrinks_is_allowed_beyond_the_limit(self, opens: OpensFiles) -> None:
        wide = opens()
        for path in ("/a", "/b", "/c"):
            wide.write(path, "12345")
        files = opens.able(max_files=1, max_bytes=4)
        files.write("/a", "54321")
        files.edit("/a", "54", "")
        files.upload("/b", b"")
        assert files.usage() == (3, 8)
        files.refused("write", "/a", "1234")
        files.refused("write", "/d", "")
        files.ok("delete", "/c")
        files.ok("delete", "/b")
        files.write("/a", "1234")
        files.refused("write", "/b", "")

    @optional
    def test_nothing_may_be_allowed(self, opens: OpensFiles) -> None:
        files = opens.able(max_files=0)
        files.refused("write", "/a", "")
        files = opens.able(max_bytes=0)
        files.refused("write", "/a", "x")
        files.write("/a", "")
        assert files.usage() == (1, 0)

    @optional
    def test_what_is_no_file_is_not_counted(self, opens: OpensFiles) -> None:
        files = opens.able(max_files=1, max_bytes=3)
        files.plant("/junk", {"content": 5, "text": "x" * 100})
        files.write("/a", "123")
        files.refused("write", "/junk", "x")
        files.ok("delete", "/a")
        files.write("/junk", "123")

    @optional
    def test_writers_at_once_stay_within(self, opens: OpensFiles) -> None:
        files = opens.able(max_files=5)

        def writer(number: int) -> Any:
            result = yield "write", (f"/{number}", "x"), {}
            return result.error is None

        outcomes = files.together([writer(number) for number in range(12)])
        assert sum(outcomes) == files.usage()[0] == 5

    @pytest.mark.parametrize("option", ["max_files", "max_bytes"])
    @optional
    def test_a_limit_must_be_a_number(self, opens: OpensFiles, option: str) -> None:
        opens.able(**{option: None}).write("/a", "x")
        for value in WRONG:
            with pytest.raises(Misconfigured) as caught:
                opens(**{option: value})
            assert caught.value.field == option
