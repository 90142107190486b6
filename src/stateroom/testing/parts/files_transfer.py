"""Uploading and downloading bytes."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.files import writing
from stateroom.testing.files_harness import Files, FilesHarness, OpensFiles

__all__ = ["FilesTransferSuite"]

SAMPLES = {
    "nothing": b"",
    "text": "naïve 😀\n".encode(),
    "other line ends": b"one\r\ntwo\rthree\r\n",
    "byte order mark": b"\xef\xbb\xbftext",
    "NUL": b"a\0b",
    "every byte": bytes(range(256)) * 3,
    "no UTF-8": b"caf\xe9",
    "a surrogate": b"\xed\xa0\x80",
    "looks like base64": b"aGVsbG8=",
    "large": bytes(range(251)) * 3_000,
}


class FilesTransferSuite(FilesHarness):
    """``upload_files`` and ``download_files``: what goes in comes out, each file on its own."""

    @pytest.mark.parametrize("name", SAMPLES)
    @pytest.mark.parametrize("file_format", ["v1", "v2"])
    def test_what_goes_in_comes_out(self, opens: OpensFiles, name: str, file_format: str) -> None:
        files, data = opens(file_format=file_format), SAMPLES[name]
        for path in ("/f", "/d/f.md", "/d/f.png"):
            files.upload(path, data)
            assert files.data(path) == data
            files.upload(path, b"")
            files.upload(path, data)
            assert files.data(path) == data
        assert files.usage() == (3, 3 * len(data))

    def test_text_is_text_and_other_bytes_are_not(self, files: Files) -> None:
        files.upload("/text", b"one\ntwo")
        files.upload("/bytes", b"one\xff")
        encodings = {path: files.ok("read", path).file_data["encoding"] for path in ("/text", "/bytes")}
        assert encodings == {"/text": "utf-8", "/bytes": "base64"}
        assert files.edit("/text", "one", "1") == 1
        assert files.data("/text") == b"1\ntwo"

    def test_files_are_uploaded_in_order_each_on_its_own(self, opens: OpensFiles) -> None:
        files = opens()
        for together in (1, 2, 3, 1_000):
            opens.few(writing, "TOGETHER", together)
            files.write("/old", "x")
            given = [
                ("/ok.txt", b"one"),
                ("../bad", b"x"),
                ("/d/", b"x"),
                ("d//bin", b"\xff"),
                ("/old/below", b"x"),
                ("/" + "x" * 10_000, b"x"),
                ("/twice", b"first"),
                ("/", b"x"),
                ("/nul\0", b"x"),
                ("/twice", b"second"),
                ("/d/last.md", b"last"),
            ]
            responses = files.call("upload_files", given)
            assert [response.path for response in responses] == [path for path, _ in given]
            failed = [place for place, response in enumerate(responses) if response.error is not None]
            assert failed == [1, 2, 4, 5, 7, 8]
            assert [responses[place].error for place in (1, 2, 7, 8)] == ["invalid_path"] * 4
            assert files.everything().keys() == {"/ok.txt", "/d/bin", "/twice", "/d/last.md", "/old"}
            assert files.data("/twice") == b"second"
            assert files.data("/d/bin") == b"\xff"
            for name in ("/d", "/ok.txt", "/twice", "/old"):
                files.ok("delete", name)
        assert files.call("upload_files", []) == []

    def test_many_good_files_are_uploaded(self, opens: OpensFiles) -> None:
        files = opens()
        for together in (1, 2, 3, 5, 1_000):
            opens.few(writing, "TOGETHER", together)
            given = [(f"/{number % 2}/{number}.md", str(number * together).encode()) for number in range(5)]
            assert [(one.path, one.error) for one in files.call("upload_files", given)] == [
                (path, None) for path, _ in given
            ]
            assert [(path, files.data(path)) for path, _ in given] == given
        assert files.usage()[0] == 5

    def test_a_name_is_a_file_or_a_directory_among_uploads_too(self, files: Files) -> None:
        responses = files.call("upload_files", [("/a", b"x"), ("/a/b", b"x"), ("/c/d", b"x"), ("/c", b"x")])
        errors = [response.error for response in responses]
        assert errors[0] is errors[2] is None
        assert errors[1] == "Error: '/a' is a file, and so can hold no other"
        if files.system.lists_cheaply:
            assert errors[3] == "Error: '/c' is a directory"
            assert files.everything().keys() == {"/a", "/c/d"}

    def test_what_is_not_bytes_is_refused_on_its_own(self, files: Files) -> None:
        given: list[Any] = [("/a", b"x"), ("/text", "text"), ("/none", None), ("/number", 5), ("/b", b"x")]
        for some in (given, given[1:2]):
            for (path, data), response in zip(some, files.call("upload_files", some), strict=True):
                assert response.path == path
                assert (response.error is None) is isinstance(data, bytes)
                assert response.error is None or "content is" in response.error
        assert files.everything().keys() == {"/a", "/b"}

    def test_uploading_again_keeps_the_creation(self, files: Files, clock: ManualClock) -> None:
        files.call("upload_files", [("/a", b"1"), ("/b", b"\xff")])
        before = {path: files.ok("read", path).file_data for path in ("/a", "/b")}
        clock.advance(minutes=1)
        files.call("upload_files", [("/a", b"\xff"), ("/b", b"2")])
        for path, data in before.items():
            again = files.ok("read", path).file_data
            assert again["created_at"] == data["created_at"] == data["modified_at"] < again["modified_at"]

    def test_files_are_downloaded_in_order_each_on_its_own(self, files: Files) -> None:
        files.write("/a.md", "one\r\ntwo")
        files.upload("/d/b", b"\xff")
        files.plant("/junk", {"content": 5})
        asked = ["/a.md", "/none", "../a.md", "d//b", "/d", "/d/", "/junk", "/a.md", "/a\0", "/"]
        responses = files.call("download_files", asked)
        assert [response.path for response in responses] == asked
        assert [response.content for response in responses] == [
            b"one\r\ntwo",
            *(None, None),
            b"\xff",
            *(None, None, None),
            b"one\r\ntwo",
            *(None, None),
        ]
        errors = [response.error for response in responses]
        assert [errors[place] for place in (0, 3, 7)] == [None] * 3
        assert errors[1] == errors[4] == "file_not_found"
        assert errors[2] == errors[5] == errors[8] == errors[9] == "invalid_path"
        assert "is no file" in errors[6]
        assert files.call("download_files", []) == []
