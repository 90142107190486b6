"""Cases in which public stores have failed their users, replayed on a store of any kind."""

from __future__ import annotations

import pytest

# Before they are imported, so that a failed assertion shows what was compared.
pytest.register_assert_rewrite(
    "stateroom.testing.cases_finding", "stateroom.testing.cases_running", "stateroom.testing.cases_storing"
)

from stateroom.testing.cases_finding import FindingCases  # noqa: E402
from stateroom.testing.cases_running import RunningCases  # noqa: E402
from stateroom.testing.cases_storing import StoringCases  # noqa: E402

__all__ = ["CasesSuite"]


class CasesSuite(StoringCases, FindingCases, RunningCases):
    """Reports of users of other stores, each by its number, as tests of this one.

    A subclass gives the fixture ``open_store``, as for ``StoreSuite``. Where a store lacks what a case is
    about, the test is that it refuses to be asked.
    """
