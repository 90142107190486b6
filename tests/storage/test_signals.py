"""Who is woken when something has happened."""

from __future__ import annotations

import logging
import threading
from functools import partial

import pytest

from stateroom.drivers.sql.signals import Signals
from stateroom.testing.storage_harness import together


@pytest.fixture
def signals() -> Signals:
    return Signals()


def test_who_subscribed_to_a_topic_is_called_when_it_is_sent(signals: Signals) -> None:
    heard: list[str] = []
    signals.subscribe("a", lambda: heard.append("first"))
    signals.subscribe("a", lambda: heard.append("second"))
    signals.subscribe("b", lambda: heard.append("other"))
    signals.send("a")
    assert heard == ["first", "second"]
    signals.send("b", "a")
    assert heard == ["first", "second", "other", "first", "second"]
    signals.send("c")
    signals.send()
    assert len(heard) == 5


def test_send_all_sends_each_topic_once_in_order(signals: Signals) -> None:
    heard: list[str] = []
    for topic in "abc":
        signals.subscribe(topic, partial(heard.append, topic))
    signals.send_all(iter(["c", "a", "c", "x", "a"]))
    assert heard == ["c", "a"]
    signals.send_all(())
    assert heard == ["c", "a"]


def test_who_has_unsubscribed_is_not_called(signals: Signals) -> None:
    heard: list[str] = []
    end = signals.subscribe("a", lambda: heard.append("first"))
    signals.subscribe("a", lambda: heard.append("second"))
    end()
    signals.send("a")
    assert heard == ["second"]
    end()
    signals.send("a")
    assert heard == ["second", "second"]


def test_each_subscription_of_one_function_ends_by_itself(signals: Signals) -> None:
    heard: list[int] = []

    def woken() -> None:
        heard.append(1)

    ends = [signals.subscribe("a", woken) for _ in range(2)]
    signals.send("a")
    assert len(heard) == 2
    ends[0]()
    ends[0]()
    signals.send("a")
    assert len(heard) == 3
    ends[1]()
    signals.send("a")
    assert len(heard) == 3


def test_topics_without_listeners_are_forgotten(signals: Signals) -> None:
    ends = [signals.subscribe(f"run:{number}", lambda: None) for number in range(100)]
    for end in ends:
        end()
    assert signals._woken == {}


def test_a_failing_listener_stops_no_other_and_nobody_who_sends(
    signals: Signals, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def fail() -> None:
        raise RuntimeError("the loop is closed")

    signals.subscribe("a", lambda: heard.append("before"))
    signals.subscribe("a", fail)
    signals.subscribe("a", lambda: heard.append("after"))
    with caplog.at_level(logging.WARNING, "stateroom.drivers.sql.signals"):
        signals.send("a")
    assert heard == ["before", "after"]
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "the loop is closed" in str(record.exc_info[1])


def test_listeners_are_called_in_the_thread_that_sends(signals: Signals) -> None:
    heard: list[int] = []
    signals.subscribe("a", lambda: heard.append(threading.get_ident()))
    together(1, lambda _: signals.send("a"))
    signals.send("a")
    assert heard[0] != heard[1] == threading.get_ident()


def test_a_listener_may_subscribe_unsubscribe_and_send(signals: Signals) -> None:
    heard: list[str] = []

    def woken() -> None:
        end()
        signals.subscribe("a", lambda: heard.append("later"))
        signals.send("b")

    end = signals.subscribe("a", woken)
    signals.subscribe("b", lambda: heard.append("nested"))
    signals.send("a")
    assert heard == ["nested"]
    signals.send("a")
    assert heard == ["nested", "later"]


def test_subscribing_and_sending_from_many_threads_loses_nobody(signals: Signals) -> None:
    heard: list[int] = []

    def act(number: int) -> None:
        for _ in range(200):
            end = signals.subscribe("a", lambda: None)
            signals.send("a")
            end()
        signals.subscribe("a", partial(heard.append, number))

    assert together(8, act) == [None] * 8
    heard.clear()
    signals.send("a")
    assert sorted(heard) == list(range(8))
