"""The AegisDB store passes the conformance suite, on a small server of ours or on a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typing_extensions import override

from stateroom.testing import Opened, StoreSuite
from tests.aegis.serving import at_hand


class TestAegisStore(StoreSuite):
    @pytest.fixture
    @override
    def open_store(self) -> Iterator[Opened]:
        with at_hand() as place:
            yield place.open
