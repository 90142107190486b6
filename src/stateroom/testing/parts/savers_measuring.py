"""What a thread takes in storage."""

from __future__ import annotations

from stateroom.savers.base import Saver
from stateroom.savers.measuring import ThreadBytes
from stateroom.testing.savers_harness import SaverHarness, put, write

__all__ = ["MeasuringSuite"]

LONG = 10_000


class MeasuringSuite(SaverHarness):
    """``storage``: all namespaces, each kind of row."""

    def test_a_thread_of_nothing_takes_nothing(self, saver: Saver) -> None:
        assert saver.storage("t") == ThreadBytes(0, 0, {}, 0, 0)
        assert saver.storage("t").total == 0

    def test_each_channel_and_each_write_counts_as_it_is_stored(self, saver: Saver) -> None:
        put(saver, 1, values={"long": ["x" * LONG], "short": ["y"]})
        put(saver, 1, ns="inner:1", values={"long": ["x" * LONG]})
        put(saver, 1, thread_id="u", values={"long": ["x" * LONG]})
        value = len(saver.serde.dumps_typed(["x" * LONG])[1])
        found = saver.storage("t")
        assert (found.checkpoints, found.writes, found.write_bytes) == (2, 0, 0)
        assert found.channels == {"long": 2 * value, "short": len(saver.serde.dumps_typed(["y"])[1])}
        assert 0 < found.checkpoint_bytes < LONG
        assert found.total == found.checkpoint_bytes + sum(found.channels.values())
        write(saver, 1, ("long", ["x" * LONG]), ("none", None))
        write(saver, 9, ("short", ["y"]), ns="inner:1")
        after = saver.storage("t")
        assert (after.writes, after.write_bytes) == (3, value + found.channels["short"])
        assert after.total == found.total + after.write_bytes
