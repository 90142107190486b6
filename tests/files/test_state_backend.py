"""Files in the state of a graph pass the conformance suite, and last as long as its thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from typing_extensions import override

from stateroom.testing.files import FilesSuite, InState, OpenedFiles


class TestStateBackend(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(InState()) as opens:
            yield opens
