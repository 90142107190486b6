"""Keys of requests: of all who use one, one is first, and the others are answered what he was."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.storage import Storage
from stateroom.errors import IdempotencyKeyInFlight, IdempotencyKeyReused, InvalidIdempotencyKey
from stateroom.ids import CountedIds
from stateroom.model.idempotency import IdempotencyRecord
from stateroom.model.limits import IDEMPOTENCY_KEY_MAX
from stateroom.service.idempotent import CLAIM_SECONDS, Claim, Keys, check_key, fingerprint
from stateroom.service.scope import Principal

LIFETIME = 100.0


@pytest.fixture
def keys(storage: Storage) -> Keys:
    return Keys(storage.idempotency, CountedIds(), lifetime=LIFETIME)


def use(keys: Keys, key: str = "k", **said: Any) -> Claim | IdempotencyRecord:
    usual: dict[str, Any] = {"method": "POST", "path": "/runs", "principal": None, "body": {"a": 1}}
    return keys.claim(key, **{**usual, **said})


def first(keys: Keys, **said: Any) -> Claim:
    found = use(keys, **said)
    assert isinstance(found, Claim)
    return found


def test_the_first_use_of_a_key_is_handled_and_the_others_are_answered_the_same(keys: Keys) -> None:
    claim = first(keys)
    with pytest.raises(IdempotencyKeyInFlight):
        use(keys)
    keys.record(claim, b"answer")
    for _ in range(2):
        found = use(keys)
        assert isinstance(found, IdempotencyRecord)
        assert found.response == b"answer"


def test_an_answer_can_be_noted_again(keys: Keys) -> None:
    claim = first(keys)
    keys.record(claim, b"waits")
    keys.record(claim, b"answer")
    found = use(keys)
    assert isinstance(found, IdempotencyRecord)
    assert found.response == b"answer"


def test_another_body_is_refused(keys: Keys) -> None:
    claim = first(keys)
    with pytest.raises(IdempotencyKeyReused):
        use(keys, body={"a": 2})
    keys.record(claim, b"answer")
    with pytest.raises(IdempotencyKeyReused):
        use(keys, body={"a": 2})
    assert isinstance(use(keys, body={"a": 1}), IdempotencyRecord)


@pytest.mark.parametrize(
    "other",
    [
        {"method": "PUT"},
        {"path": "/runs/wait"},
        {"principal": Principal("ann")},
        {"principal": Principal("")},
        {"key": "K"},
    ],
)
def test_a_key_is_the_callers_on_one_path(keys: Keys, other: dict[str, Any]) -> None:
    first(keys)
    first(keys, **other)


def test_a_key_whose_request_failed_is_free(keys: Keys) -> None:
    keys.release(first(keys))
    keys.record(first(keys), b"answer")


def test_a_key_whose_request_died_is_free_after_a_while(keys: Keys, clock: ManualClock) -> None:
    first(keys)
    clock.advance(seconds=CLAIM_SECONDS - 1)
    with pytest.raises(IdempotencyKeyInFlight):
        use(keys)
    clock.advance(seconds=1)
    first(keys)


def test_an_answer_is_given_again_for_its_lifetime(keys: Keys, clock: ManualClock) -> None:
    keys.record(first(keys), b"answer")
    clock.advance(seconds=LIFETIME - 1)
    assert isinstance(use(keys), IdempotencyRecord)
    clock.advance(seconds=1)
    first(keys)


@pytest.mark.parametrize("key", ["", "a" * (IDEMPOTENCY_KEY_MAX + 1), "a\nb", "ä", "\0", "a\x7f"])
def test_a_key_that_is_none_is_refused(keys: Keys, key: str) -> None:
    with pytest.raises(InvalidIdempotencyKey):
        use(keys, key)


@pytest.mark.parametrize("key", ["a", "a" * IDEMPOTENCY_KEY_MAX, "a b~!", "0"])
def test_a_key_may_be_any_printable_text(key: str) -> None:
    assert check_key(key) == key


def test_the_same_json_has_the_same_digest() -> None:
    body = {"b": [1, 2.5, None, "\ud800"], "a": {"y": 10**40, "x": float("nan")}}
    other = {"a": {"x": float("nan"), "y": 10**40}, "b": [1, 2.5, None, "\ud800"]}
    assert fingerprint(body) == fingerprint(other)
    different: list[Any] = [{}, [], None, {"a": 1}, {"a": "1"}, {"a": 1.5}, {"a": True}, {"a": [1]}]
    assert len({fingerprint(each) for each in different}) == len(different)
