"""How a limit is refused."""

from __future__ import annotations

import pytest

from stateroom.errors import LimitExceeded
from stateroom.model.limits import BATCH_OPERATIONS_MAX, check_limit


def test_a_limit_itself_is_allowed() -> None:
    check_limit(BATCH_OPERATIONS_MAX, BATCH_OPERATIONS_MAX, "operations", field="ops")


def test_one_more_is_refused_with_the_limit_and_the_number_seen() -> None:
    with pytest.raises(
        LimitExceeded, match=r"^ops has 50,001 operations; at most 50,000 are allowed$"
    ) as caught:
        check_limit(BATCH_OPERATIONS_MAX + 1, BATCH_OPERATIONS_MAX, "operations", field="ops")
    assert caught.value.field == "ops"
