"""What a batch is: operations in order, all or none, each with its result."""

from __future__ import annotations

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from stateroom.clock import ManualClock
from stateroom.contract.items import Capability
from stateroom.errors import (
    Conflict,
    InvalidFilter,
    InvalidInput,
    InvalidValue,
    LimitExceeded,
    StateroomError,
)
from stateroom.model.limits import BATCH_OPERATIONS_MAX
from stateroom.stores.operations import CountItems, DeleteItem, GetItem, PutItem, SearchItems, StoreOperation
from stateroom.testing.harness import Harness, Memory, Opens, Script, ask
from stateroom.testing.needs import needs
from stateroom.testing.snapshot import snapshot

__all__ = ["BatchSuite"]


class BatchSuite(Harness):
    """A batch is one transaction, and batches of callers who travel together stay apart."""

    def test_results_line_up_with_operations(self, memory: Memory) -> None:
        memory.put(("a",), "old", {"n": 0})
        results = memory.batch(
            [
                PutOp(("a",), "k", {"n": 1}),
                GetOp(("a",), "old"),
                PutItem(("a",), "own", {"n": 2}),
                GetItem(("a",), "absent"),
                SearchOp(("a",), filter={"n": 2}),
                DeleteItem(("a",), "old"),
                CountItems(("a",)),
                ListNamespacesOp(),
                SearchItems(("b",)),
            ]
        )
        assert len(results) == 9
        assert results[0] is None
        assert results[1].value == {"n": 0}
        assert (results[2].key, results[2].value) == ("own", {"n": 2})
        assert results[3] is None
        assert [item.key for item in results[4]] == ["own"]
        assert results[5] is None
        assert results[6:] == [2, [("a",)], []]

    def test_later_operations_see_earlier_ones(self, memory: Memory) -> None:
        results = memory.batch(
            [
                CountItems(("a",)),
                PutItem(("a",), "k", {"n": 1}),
                GetItem(("a",), "k"),
                PutItem(("a",), "k", {"n": 2}),
                GetItem(("a",), "k"),
                SearchItems(("a",)),
                ListNamespacesOp(),
                DeleteItem(("a",), "k"),
                GetItem(("a",), "k"),
                SearchItems(("a",)),
                CountItems(("a",)),
                ListNamespacesOp(),
            ]
        )
        assert results[0] == 0
        assert results[2].value == {"n": 1}
        assert results[4].value == {"n": 2}
        assert [hit.value for hit in results[5]] == [{"n": 2}]
        assert results[6] == [("a",)]
        assert results[8:] == [None, [], 0, []]

    @needs(Capability.TEXT)
    def test_a_query_sees_the_puts_before_it_in_its_batch(self, memory: Memory) -> None:
        memory.put(("a",), "old", {"text": "giraffe"})
        results = memory.batch(
            [
                SearchItems(("a",), query="giraffe", mode="text"),
                PutItem(("a",), "new", {"text": "giraffe giraffe"}),
                SearchItems(("a",), query="giraffe", mode="text"),
                DeleteItem(("a",), "old"),
                SearchItems(("a",), query="giraffe", mode="text"),
                PutItem(("a",), "new", {"text": "zebra"}),
                SearchItems(("a",), query="giraffe", mode="text"),
            ]
        )
        found = [[hit.key for hit in result] for result in results[0::2]]
        assert found == [["old"], ["new", "old"], ["new"], []]

    def test_the_last_of_several_puts_of_one_key_remains(self, memory: Memory) -> None:
        memory.batch([PutItem(("a",), "k", {"n": number}) for number in range(5)])
        assert memory.read(("a",), "k").value == {"n": 4}
        assert memory.count(("a",)) == 1

    def test_a_key_may_be_deleted_and_put_again_in_one_batch(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"n": 1})
        memory.batch([DeleteItem(("a",), "k"), PutOp(("a",), "k", {"n": 2}), PutOp(("b",), "k", {})])
        memory.batch([PutOp(("b",), "k", {"n": 3}), PutOp(("b",), "k", None)])
        assert [(hit.namespace, hit.value) for hit in memory.search(())] == [(("a",), {"n": 2})]

    def test_an_empty_batch_has_no_results(self, memory: Memory) -> None:
        assert memory.batch([]) == []

    def test_operations_may_come_from_a_generator(self, memory: Memory) -> None:
        memory.call("batch", (PutItem(("a",), str(number), {}) for number in range(3)))
        assert memory.count(("a",)) == 3

    @pytest.mark.parametrize("place", [0, 1, 3])
    def test_a_bad_operation_anywhere_keeps_the_whole_batch_from_taking_effect(
        self, memory: Memory, place: int
    ) -> None:
        memory.put(("a",), "kept", {"n": 1})
        before = snapshot(memory, "word")
        operations: list[StoreOperation] = [
            PutItem(("a",), "new", {"t": "word"}),
            DeleteItem(("a",), "kept"),
            PutOp(("b",), "k", {}),
        ]
        operations.insert(place, PutItem(("a",), "bad", {"t": b"bytes"}))
        with pytest.raises(InvalidValue) as caught:
            memory.batch(operations)
        assert caught.value.field == "value.t"
        assert snapshot(memory, "word") == before

    @needs(Capability.CONDITIONAL)
    def test_an_error_half_way_undoes_what_came_before_it(self, memory: Memory) -> None:
        memory.put(("a",), "changed", {"t": "giraffe"})
        memory.put(("a",), "deleted", {"t": "zebra"})
        before = snapshot(memory, "giraffe", "zebra", "okapi")
        operations: list[StoreOperation] = [
            PutItem(("a",), "changed", {"t": "okapi"}),
            DeleteItem(("a",), "deleted"),
            PutItem(("new",), "k", {"t": "okapi"}),
            PutItem(("a",), "changed", {"t": "zebra"}, if_absent=True),
            PutItem(("later",), "k", {}),
        ]
        with pytest.raises(Conflict):
            memory.batch(operations)
        if Capability.ATOMIC_BATCH in memory.capabilities:
            assert snapshot(memory, "giraffe", "zebra", "okapi") == before
        else:
            # Each operation stands alone: those before the error are done, those after it are not.
            assert memory.read(("a",), "changed").value == {"t": "okapi"}
            assert memory.get(("a",), "deleted") is None
            assert memory.get(("new",), "k") is not None
            assert memory.get(("later",), "k") is None

    @needs(Capability.CONDITIONAL)
    def test_after_a_batch_that_failed_everything_goes_on(self, memory: Memory) -> None:
        for number in range(3):
            with pytest.raises(Conflict):
                memory.batch([DeleteItem(("a",), "absent", 1), PutItem(("a",), "k", {"n": number})])
            memory.put(("b",), str(number), {"n": number})
        assert [hit.value["n"] for hit in memory.search(())] == [2, 1, 0]
        assert memory.list_namespaces() == [("b",)]

    def test_an_unknown_operation_is_refused(self, memory: Memory) -> None:
        for operation in (None, "get", ("a", "k"), {"op": "get"}, object()):
            with pytest.raises(InvalidInput) as caught:
                memory.call("batch", [PutItem(("a",), "k", {}), operation])
            assert (caught.value.code, caught.value.field) == ("invalid_input", "ops")
        assert memory.count(()) == 0

    def test_the_largest_batch_is_applied_and_one_operation_more_refused(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"n": 1})
        operations = [GetItem(("a",), "k", False)] * BATCH_OPERATIONS_MAX
        results = memory.call("batch", operations)
        assert len(results) == BATCH_OPERATIONS_MAX
        assert results[-1].value == {"n": 1}
        with pytest.raises(LimitExceeded) as caught:
            memory.call("batch", [*operations, PutItem(("a",), "new", {})])
        assert (caught.value.code, caught.value.field) == ("limit_exceeded", "ops")
        assert memory.count(()) == 1

    def test_many_puts_in_one_batch_are_all_there_in_order(self, memory: Memory) -> None:
        memory.call("batch", [PutItem(("a", str(n % 7)), str(n), {"n": n}) for n in range(2_500)])
        assert memory.count(("a",)) == 2_500
        assert memory.keys(("a",), limit=3) == ["2499", "2498", "2497"]
        assert memory.keys(("a",), limit=3, offset=2_497) == ["2", "1", "0"]

    def test_langgraphs_search_and_listing_mean_what_ours_do(self, memory: Memory) -> None:
        for number in range(4):
            memory.put(("a", str(number), "end"), str(number), {"n": number})
        theirs, names = memory.batch(
            [
                SearchOp(("a",), filter={"n": {"$gte": 1}}, limit=2, offset=1),
                ListNamespacesOp(
                    (MatchCondition("prefix", ("a", "*")), MatchCondition("suffix", ("end",))),
                    max_depth=2,
                    limit=2,
                    offset=1,
                ),
            ]
        )
        assert [hit.key for hit in theirs] == ["2", "1"]
        assert names == [("a", "1"), ("a", "2")]

    def test_a_put_operation_without_a_value_deletes(self, memory: Memory) -> None:
        memory.put(("a",), "k", {})
        assert memory.batch([PutOp(("a",), "k", None), PutOp(("a",), "absent", None)]) == [None, None]
        assert memory.count(()) == 0

    @needs(Capability.TTL)
    def test_langgraphs_put_operation_without_a_ttl_never_expires(self, opens: Opens) -> None:
        memory = opens(ttl={"default_ttl": 5})
        memory.batch(
            [PutOp(("a",), "never", {}), PutOp(("a",), "soon", {}, ttl=1), PutItem(("a",), "own", {})]
        )
        assert [(hit.key, hit.ttl) for hit in memory.search(("a",))] == [
            ("own", 5),
            ("soon", 1),
            ("never", None),
        ]

    @needs(Capability.TTL)
    def test_langgraphs_read_operations_refresh_unless_told_otherwise(
        self, opens: Opens, clock: ManualClock
    ) -> None:
        memory = opens(ttl={"refresh_on_read": False})
        for key in ("got", "kept", "ours"):
            memory.put((key,), key, {}, ttl=10)
        clock.advance(minutes=6)
        memory.batch([GetOp(("got",), "got"), GetOp(("kept",), "kept", False), GetItem(("ours",), "ours")])
        clock.advance(minutes=6)
        assert memory.keys(()) == ["got"]
        memory.batch([SearchOp(("got",))])
        clock.advance(minutes=6)
        assert memory.keys(()) == ["got"]

    def test_one_bad_batch_fails_only_its_own_caller(self, memory: Memory) -> None:
        def puts(number: int) -> list[PutItem]:
            value = {"n": number, "bad": {1}} if number % 4 == 0 else {"n": number}
            return [PutItem(("a",), f"{number}-{part}", value) for part in range(2)]

        def caller(number: int) -> Script:
            return (yield ask("batch", puts(number)))

        outcomes = memory.together([caller(number) for number in range(20)])
        for number, outcome in enumerate(outcomes):
            if number % 4 == 0:
                assert isinstance(outcome, InvalidValue)
            else:
                assert [item.value for item in outcome] == [{"n": number}] * 2
        assert memory.count(("a",)) == 30

    @needs(Capability.CONDITIONAL)
    def test_a_conflict_or_a_bad_call_fails_only_its_own_caller(self, memory: Memory) -> None:
        memory.put(("a",), "taken", {"by": "first"})

        def caller(number: int) -> Script:
            if number % 3 == 0:
                yield ask("put", ("a",), "taken", {"by": number}, if_absent=True)
            elif number % 3 == 1:
                yield ask("search", ("a",), filter={"n": {"$odd": 1}})
            else:
                yield ask("put", ("a",), str(number), {"n": number})

        outcomes = memory.together([caller(number) for number in range(18)])
        kinds = [type(outcome) if isinstance(outcome, StateroomError) else outcome for outcome in outcomes]
        assert kinds == [Conflict, InvalidFilter, None] * 6
        assert memory.count(("a",)) == 7
        assert memory.read(("a",), "taken").value == {"by": "first"}
