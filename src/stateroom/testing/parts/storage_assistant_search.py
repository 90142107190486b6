"""How assistants are found, in which order, and page by page."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.assistants import AssistantChange, AssistantQuery, NewAssistant
from stateroom.contract.storage import Storage
from stateroom.errors import InvalidInput, InvalidPage
from stateroom.model.assistant import ASSISTANT_SORTS, Assistant
from stateroom.model.paging import Sort
from stateroom.testing.storage_harness import StorageHarness, check_refused

__all__ = ["AssistantSearchSuite", "make_assistant"]


def make_assistant(storage: Storage, assistant_id: str = "a", **fields: Any) -> Assistant:
    """Make an assistant of the graph ``g``, or of another."""
    return storage.assistants.create(NewAssistant(assistant_id, **{"graph_id": "g", **fields}))


def ids(storage: Storage, query: AssistantQuery | None = None, **options: Any) -> str:
    """Return the ids of the assistants that are found, one letter each."""
    page = storage.assistants.search(query or AssistantQuery(), **options)
    return "".join(each.assistant_id for each in page.rows)


def read_through(storage: Storage, query: AssistantQuery | None = None, **options: Any) -> list[str]:
    """Return the ids on the pages that follow each other."""
    pages: list[str] = []
    after = None
    while True:
        page = storage.assistants.search(query or AssistantQuery(), after=after, **options)
        pages.append("".join(each.assistant_id for each in page.rows))
        after = page.next
        if after is None:
            return pages


class AssistantSearchSuite(StorageHarness):
    """``search`` answers pages of what fits, ``count`` how many there are."""

    def test_the_newest_assistants_come_first_ten_of_them(self, storage: Storage, clock: ManualClock) -> None:
        for name in "abcdefghijkl":
            make_assistant(storage, name)
            clock.advance(seconds=1)
        assert ids(storage) == "lkjihgfedc"
        page = storage.assistants.search(AssistantQuery(), limit=2)
        assert page.rows == [storage.assistants.get("l"), storage.assistants.get("k")]

    def test_an_assistant_is_found_as_its_active_version_has_it(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        make_assistant(storage, metadata={"n": 1}, name="one", description="d", config={"c": 1})
        clock.advance(seconds=1)
        later = AssistantChange(graph_id="h", name="two", metadata={"n": 2}, context={"x": 1})
        updated = storage.assistants.update("a", later)

        def check(found: Assistant, *, gone: AssistantQuery) -> None:
            for query in (
                AssistantQuery(),
                AssistantQuery(graph_id=found.graph_id),
                AssistantQuery(name=found.name),
                AssistantQuery(metadata=found.metadata),
                AssistantQuery(found.graph_id, found.name, found.metadata, found.metadata),
            ):
                assert storage.assistants.search(query).rows == [found]
                assert storage.assistants.count(query) == 1
            for condition in gone._asdict().items():
                query = AssistantQuery(**dict([condition]))
                assert (condition[1] is None) == bool(storage.assistants.search(query).rows)

        check(updated, gone=AssistantQuery("g", "one", {"n": 1}))
        active = storage.assistants.activate("a", 1)
        check(active, gone=AssistantQuery("h", "two", {"n": 2}))

    def test_assistants_that_fit_fit_each_condition(self, storage: Storage) -> None:
        make_assistant(storage, "a", graph_id="g", name="n", metadata={"x": 1, "o": "me"})
        make_assistant(storage, "b", graph_id="g", name="m", metadata={"x": 1, "o": "you"})
        make_assistant(storage, "c", graph_id="h", name="n", metadata={"x": 2, "o": "me"})
        make_assistant(storage, "d", graph_id="h", name="m")
        for query, found in (
            (AssistantQuery(graph_id="g"), "ba"),
            (AssistantQuery(graph_id="G"), ""),
            (AssistantQuery(name="n"), "ca"),
            (AssistantQuery(name="nn"), ""),
            (AssistantQuery(name=""), ""),
            (AssistantQuery(graph_id="h", name="n"), "c"),
            (AssistantQuery(metadata={"x": 1}), "ba"),
            (AssistantQuery(metadata={}), "dcba"),
            (AssistantQuery(metadata={}, enforced_metadata={}), "dcba"),
            (AssistantQuery(enforced_metadata={"o": "me"}), "ca"),
            (AssistantQuery(metadata={"x": 1}, enforced_metadata={"o": "me"}), "a"),
            (AssistantQuery("g", "n", {"x": 1}, {"o": "me"}), "a"),
            # Neither condition takes the place of the other.
            (AssistantQuery(metadata={"o": "you"}, enforced_metadata={"o": "me"}), ""),
        ):
            assert ids(storage, query) == found, query
            assert storage.assistants.count(query) == len(found), query

    def test_assistants_are_found_by_a_part_of_their_name(self, storage: Storage) -> None:
        for identity, name in {"a": "Émile", "b": "smile 50%", "c": "mil_e", "d": "other"}.items():
            make_assistant(storage, identity, name=name)
        for part, found in {"mil": "cba", "ÉMILE": "a", "%": "b", "_": "c", "": "dcba", "x": ""}.items():
            query = AssistantQuery(graph_id="g", name_part=part)
            assert ids(storage, query) == found, part
            assert storage.assistants.count(query) == len(found), part
        assert read_through(storage, AssistantQuery(name_part="mil"), limit=2) == ["cb", "a"]

    def test_metadata_of_assistants_is_compared_by_containment(self, storage: Storage) -> None:
        make_assistant(storage, metadata={"a": {"b": [1, {"c": None, "d": True}]}, "t": "x"})
        for wanted, fits in (
            ({"a": {}}, True),
            ({"a": {"b": []}}, True),
            ({"a": {"b": [1.0]}}, True),
            ({"a": {"b": [{"c": None}, 1]}}, True),
            ({"a": {"b": [{"c": None, "d": True}]}, "t": "x"}, True),
            ({"a": {"b": [{"c": None, "d": 1}]}}, False),
            ({"a": {"b": 1}}, False),
            ({"a": []}, False),
            ({"t": "X"}, False),
            ({"u": None}, False),
        ):
            query = AssistantQuery(metadata=wanted)
            assert storage.assistants.count(query) == len(ids(storage, query)) == int(fits), wanted

    def test_each_sort_of_assistants_has_two_directions_and_ties_are_sorted_by_id(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        for name, fields in {
            "c": {"graph_id": "h", "name": "x"},
            "a": {"graph_id": "g", "name": "y"},
            "d": {"graph_id": "g", "name": "Z"},
        }.items():
            make_assistant(storage, name, **fields)
        clock.advance(seconds=1)
        make_assistant(storage, "b", graph_id="h", name="y")
        clock.advance(seconds=1)
        storage.assistants.update("a", AssistantChange())
        orders = {
            "assistant_id": "abcd",
            "graph_id": "adbc",
            "name": "dcab",
            "created_at": "acdb",
            "updated_at": "cdba",
        }
        assert orders.keys() == set(ASSISTANT_SORTS)
        for field, order in orders.items():
            assert ids(storage, sort=Sort(field, descending=False)) == order, field
            assert ids(storage, sort=Sort(field)) == order[::-1], field

    @pytest.mark.parametrize("field", ASSISTANT_SORTS)
    @pytest.mark.parametrize("descending", [True, False])
    def test_pages_of_assistants_follow_each_other(
        self, storage: Storage, field: str, descending: bool
    ) -> None:
        for name in "hbgafced":
            make_assistant(storage, name, graph_id=name if name < "d" else "z", metadata={"n": 1})
        sort = Sort(field, descending)
        everything = ids(storage, sort=sort)
        assert sorted(everything) == list("abcdefgh")
        query = AssistantQuery(metadata={"n": 1})
        assert read_through(storage, sort=sort, limit=3) == [everything[:3], everything[3:6], everything[6:]]
        assert read_through(storage, query, sort=sort, limit=4) == [everything[:4], everything[4:]]
        assert read_through(storage, sort=sort, limit=8) == [everything]
        first = storage.assistants.search(query, sort=sort, limit=2)
        assert ids(storage, query, sort=sort, limit=2, offset=3, after=first.next) == everything[5:7]
        assert ids(storage, sort=sort, limit=2, offset=7) == everything[7:]
        assert ids(storage, sort=sort, limit=2, offset=8) == ids(storage, sort=sort, limit=0) == ""

    def test_assistants_that_stay_are_on_exactly_one_page_whatever_comes_and_goes(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        for name in "abcdefgh":
            make_assistant(storage, name)
            clock.advance(seconds=1)
        first = storage.assistants.search(AssistantQuery(), limit=3)
        make_assistant(storage, "z")
        for gone in "fbh":
            storage.assistants.delete(gone)
        second = storage.assistants.search(AssistantQuery(), limit=3, after=first.next)
        assert "".join(each.assistant_id for each in first.rows) == "hgf"
        assert "".join(each.assistant_id for each in second.rows) == "edc"
        assert ids(storage, after=second.next) == "a"

    def test_count_of_assistants_goes_no_further_than_it_is_told(self, storage: Storage) -> None:
        assert storage.assistants.count(AssistantQuery()) == 0
        for name in "abcde":
            make_assistant(storage, name, metadata={"n": [1, 2]})
        deep = AssistantQuery(metadata={"n": [1]})
        for query in (AssistantQuery(), deep, AssistantQuery(graph_id="g")):
            assert [storage.assistants.count(query, at_most=most) for most in (None, 0, 3, 5, 9)] == [
                *(5, 0, 3, 5, 5)
            ]

    def test_what_is_no_page_of_assistants_is_refused(self, storage: Storage) -> None:
        search = partial(storage.assistants.search, AssistantQuery())
        make_assistant(storage, "a")
        make_assistant(storage, "b")
        following = search(limit=1).next
        assert following is not None
        check_refused(InvalidPage, "sort_by", partial(search, sort=Sort("metadata")))
        check_refused(InvalidPage, "after", partial(search, after="nonsense"))
        check_refused(InvalidPage, "after", partial(search, after=following, sort=Sort("name")))
        wrong: Any
        for wrong in (-1, "1", None, True):
            check_refused(InvalidPage, "limit", partial(search, limit=wrong))
            check_refused(InvalidPage, "offset", partial(search, offset=wrong))
        for wrong in (-1, "1", True):
            count = partial(storage.assistants.count, AssistantQuery(), at_most=wrong)
            check_refused(InvalidPage, "at_most", count)

    def test_conditions_on_assistants_that_cannot_be_are_refused(self, storage: Storage) -> None:
        wrong: list[tuple[str, AssistantQuery]] = [
            ("graph_id", AssistantQuery(graph_id="a\0b")),
            ("graph_id", AssistantQuery(graph_id="")),
            ("name", AssistantQuery(name="a\0b")),
            ("name_part", AssistantQuery(name_part="a\0b")),
            ("metadata.x", AssistantQuery(metadata={"x": object()})),
            ("enforced_metadata.x", AssistantQuery(enforced_metadata={"x": object()})),
        ]
        for field, query in wrong:
            check_refused(InvalidInput, field, partial(storage.assistants.search, query))
            check_refused(InvalidInput, field, partial(storage.assistants.count, query))
