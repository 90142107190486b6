"""Runs: which statuses they may go through, and what an attempt is known by."""

from __future__ import annotations

import pytest

from stateroom.model.run import ENDED, RUN_MOVES, Attempt, CancelAction, Multitask, RunStatus, may_become

P, R = RunStatus.PENDING, RunStatus.RUNNING


def test_every_status_says_what_it_may_become() -> None:
    assert RUN_MOVES.keys() == set(RunStatus)
    assert set(RunStatus) == ENDED | {P, R}


@pytest.mark.parametrize("before", RunStatus)
@pytest.mark.parametrize("after", RunStatus)
def test_which_moves_there_are(before: RunStatus, after: RunStatus) -> None:
    moves = {(P, R), (P, RunStatus.INTERRUPTED), (P, RunStatus.ERROR), (R, P), *((R, end) for end in ENDED)}
    assert may_become(before, after) == ((before, after) in moves)


def test_no_run_leaves_its_end() -> None:
    assert not any(may_become(end, after) for end in ENDED for after in RunStatus)


def test_what_a_new_run_does_to_others_is_how_they_are_stopped() -> None:
    assert {Multitask(action.value) for action in CancelAction} == {Multitask.INTERRUPT, Multitask.ROLLBACK}


def test_attempts_are_the_same_by_all_that_they_are() -> None:
    attempt = Attempt("r", "t", 1)
    assert attempt == Attempt("r", "t", 1)
    assert len({attempt, Attempt("r", "t", 2), Attempt("s", "t", 1), Attempt("r", "u", 1)}) == 4
