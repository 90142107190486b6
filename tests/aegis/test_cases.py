"""Cases in which public stores have failed their users, replayed on the AegisDB store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typing_extensions import override

from stateroom.testing import Opened
from stateroom.testing.cases import CasesSuite
from tests.aegis.serving import at_hand


class TestAegisStore(CasesSuite):
    """Items on a server."""

    @pytest.fixture
    @override
    def open_store(self) -> Iterator[Opened]:
        with at_hand() as place:
            yield place.open
