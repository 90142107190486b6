"""Keys are listed from Postgres as from memory, in whatever batch, however long and in whatever script."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from stateroom.clock import ManualClock
from stateroom.contract.items import Count, Delete, Get, Items, ListKeys, Operation, Outcome, Put
from stateroom.drivers.memory.items import MemoryItems
from stateroom.drivers.postgres.grouping import kind_of, trips
from stateroom.drivers.postgres.items import PostgresItems
from stateroom.drivers.postgres.keys import HEAD
from stateroom.errors import Conflict, StateroomError
from stateroom.model.file import Stat
from stateroom.model.item import KeyEntry
from stateroom.model.limits import KEY_BYTES_MAX
from stateroom.model.namespace import Namespace
from stateroom.search.index_config import IndexSettings

SCHEMA = "keys"
NOWHERE = ListKeys(("nowhere",))
LAST = "\U0010ffff"

# More characters than the index holds, and as many bytes as a character may have.
LONG = "/" + "😀" * HEAD
LONGEST = "/" + "é" * ((KEY_BYTES_MAX - 2) // 2)

_numbers = count()


class Pair(NamedTuple):
    """The same items in Postgres and in memory, by one clock."""

    postgres: PostgresItems
    memory: MemoryItems
    clock: ManualClock

    def apply(self, operations: Sequence[Operation]) -> None:
        # What one of them alone was given before has times up to here.
        self.clock.advance(seconds=1)
        self.postgres.apply(operations)
        self.memory.apply(operations)

    def answer(self, *listings: ListKeys) -> list[list[KeyEntry]]:
        """Return what both list, but for the revisions, which are Postgres's own."""
        found, expected = listed(self.postgres, *listings), listed(self.memory, *listings)
        assert bare(found) == bare(expected)
        for listing, entries in zip(listings, found, strict=True):
            for entry in entries:
                if entry.revision is not None:
                    record = self.postgres.get(Get(listing.namespace, entry.key))
                    assert record is not None
                    assert entry.revision == record.revision
        return found

    def keys(self, namespace: Namespace, prefix: str = "", **options: Any) -> list[str]:
        (entries,) = self.answer(ListKeys(namespace, prefix, **options))
        return [entry.key for entry in entries]


def listed(items: Items, *listings: ListKeys) -> list[list[KeyEntry]]:
    return items.apply(listings)  # type: ignore[return-value]  # what listings answer


def bare(answers: Outcome | Sequence[Any]) -> list[list[KeyEntry]]:
    """Return what listings answer, but for the revisions."""
    assert not isinstance(answers, StateroomError)
    several: Sequence[Any] = answers
    return [[each._replace(revision=each.revision and 1) for each in entries] for entries in several]


def opened(uri: str, schema: str, clock: ManualClock) -> PostgresItems:
    settings = IndexSettings()
    return PostgresItems(
        uri, settings, index_keys=(), clock=clock, schema=schema, pool={"max_size": 4}, prepares=True
    )


@pytest.fixture(scope="module")
def pair(postgres: str) -> Iterator[Pair]:
    clock = ManualClock()
    items = opened(postgres, SCHEMA, clock)
    yield Pair(items, MemoryItems(IndexSettings(), index_keys=(), clock=clock), clock)
    items.close()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("set client_min_messages = 'warning'")
        connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(SCHEMA)))


@pytest.fixture
def namespace() -> Namespace:
    return new_namespace()


def new_namespace() -> Namespace:
    return "n", str(next(_numbers))


def file(namespace: Namespace, key: str, raw: bytes = b'{"content":"x"}', **options: Any) -> Put:
    return Put(namespace, key, raw, stat=Stat(len(raw), f"at {key[:9]}"), **options)


def put(pair: Pair, namespace: Namespace, keys: Sequence[str]) -> None:
    pair.apply([file(namespace, key) for key in keys])


pieces = st.sampled_from(
    [
        "/",
        "/",
        "/",
        "a",
        "b",
        "aa",
        "é",
        "\x01",
        "\ud7ff",
        "\ue000",
        "\uffff",
        "😀",
        LAST,
        LONG,
        "_",
        "%",
        "\\",
    ]
)
texts = st.lists(pieces, max_size=4).map("".join)
names = st.builds("".join, st.tuples(st.sampled_from(["/", "/", "/", "/a/", "", LONG]), texts)).filter(bool)
values = st.sampled_from([b'{"content":"x"}', b'{"content":"a%_b"}', b'{"content":["one","\xc3\xa9"]}'])
listings = st.builds(
    ListKeys,
    st.just(()),
    prefix=st.sampled_from(["", "/", "/", "/", "/a/", "/a", "a", LAST, "/" + LAST, LONG, LONG + "/"]) | names,
    suffix=st.sampled_from(["", "", "", "a", "/", "é", "a/b"]),
    delimiter=st.sampled_from([None, "/", "/", "/", "a", "😀", LAST, "\ud7ff"]),
    after=st.none() | names,
    limit=st.sampled_from([1000, 1000, 3, 1, 0]),
    containing=st.sampled_from([None, None, b"", b"x", b"%", b"\xc3\xa9", b"no"]),
    with_values=st.booleans(),
)


@settings(max_examples=150)
@given(
    items=st.dictionaries(names, st.tuples(values, st.sampled_from([None, None, 1.0])), max_size=25),
    removed=st.sets(names, max_size=3),
    asked=st.lists(listings, min_size=1, max_size=8),
)
def test_what_is_listed_is_what_memory_lists(
    pair: Pair, items: dict[str, tuple[bytes, float | None]], removed: set[str], asked: list[ListKeys]
) -> None:
    namespace = new_namespace()
    pair.apply([file(namespace, key, raw, ttl=ttl) for key, (raw, ttl) in items.items()])
    pair.apply([Delete(namespace, key) for key in removed])
    everything = [each._replace(namespace=namespace) for each in asked]
    pair.answer(*everything)
    pair.clock.advance(minutes=2)
    for each in everything:
        pair.answer(each)


def test_keys_come_in_code_point_order(pair: Pair, namespace: Namespace) -> None:
    # In UTF-16, and by the rules of most languages, they would come in another one.
    keys = ["/A", "/_", "/a", "/b", "/é", "/\ud7ff", "/\ue000", "/\uffff", "/😀", "/" + LAST]
    assert keys == sorted(keys)
    put(pair, namespace, keys[::-1])
    assert pair.keys(namespace) == pair.keys(namespace, "/") == keys
    assert pair.keys(namespace, "/", delimiter="/") == keys


@pytest.mark.parametrize("delimiter", [None, "/"])
def test_keys_that_begin_with_more_alike_than_the_index_holds_are_told_apart(
    pair: Pair, namespace: Namespace, delimiter: str | None
) -> None:
    keys = sorted(f"{LONG}/{name}" for name in ["b", "a", "c/x", "c/y", "d", "e", "c", "c!", "ca/", "f"])
    # The index has them in the order in which they were put.
    put(pair, namespace, [*keys[::-1], LONG[:-1] + "/", LONG + "\x01", LONG + LAST, LONG])
    shown = pair.keys(namespace, f"{LONG}/", delimiter=delimiter)
    assert shown == (keys if delimiter is None else sorted({*keys, f"{LONG}/c/"} - set(keys[4:6])))
    paged, after = [], None
    while page := pair.keys(namespace, f"{LONG}/", delimiter=delimiter, after=after, limit=1):
        paged += page
        (after,) = page
    assert paged == shown
    for bound in [*shown, LONG, LONG + "/bb", LONG + "0", LONG[:9]]:
        pair.keys(namespace, "/", delimiter=delimiter, after=bound, limit=3)
        pair.keys(namespace, LONG, delimiter=delimiter, after=bound)


def test_the_longest_keys_are_listed(pair: Pair, namespace: Namespace) -> None:
    keys = [LONGEST + "a", LONGEST + "b", LONGEST]
    put(pair, namespace, keys)
    assert pair.keys(namespace, "/") == pair.keys(namespace, LONGEST) == sorted(keys)
    assert pair.keys(namespace, LONGEST, after=LONGEST + "a") == [LONGEST + "b"]
    assert pair.keys(namespace, "/", delimiter="/", after=LONGEST, limit=1) == [LONGEST + "a"]
    assert pair.keys(namespace, LONGEST + "b", suffix=LONGEST[-9:] + "b") == [LONGEST + "b"]


TREE = [
    "/a",
    "/a!",
    "/a/1.md",
    "/a/2.txt",
    "/a/b/3.md",
    "/a0",
    "/b/4.txt",
    "/c/",
    "/c/5.md",
    "/d",
    "a/b",
    "c",
]


def test_what_a_suffix_leaves_out_makes_no_folder(pair: Pair, namespace: Namespace) -> None:
    put(pair, namespace, TREE)
    assert pair.keys(namespace, "/", suffix=".md", delimiter="/") == ["/a/", "/c/"]
    assert pair.keys(namespace, "/", suffix=".md") == ["/a/1.md", "/a/b/3.md", "/c/5.md"]
    assert pair.keys(namespace, "/a/", suffix=".md", delimiter="/") == ["/a/1.md", "/a/b/"]
    assert pair.keys(namespace, suffix="/b") == ["a/b"]


def test_a_page_goes_on_behind_a_folder_wherever_in_it_the_last_one_ended(
    pair: Pair, namespace: Namespace
) -> None:
    put(pair, namespace, TREE)
    shown = ["/a", "/a!", "/a/", "/a0", "/b/", "/c/", "/d"]
    assert pair.keys(namespace, "/", delimiter="/") == shown
    for after, at in [("/", 0), ("/a", 1), ("/a.", 2), ("/a/", 3), ("/a/1.md", 3), ("/a/zz", 3), ("/z", 7)]:
        assert pair.keys(namespace, "/", delimiter="/", after=after) == shown[at:]
        assert pair.keys(namespace, "/", delimiter="/", after=after, limit=2) == shown[at : at + 2]
    assert pair.keys(namespace, "/b", delimiter="/", after="/a/1.md") == ["/b/"]
    assert pair.keys(namespace, "/b", after="/c") == []


def test_a_walk_over_many_files_and_folders_misses_none(pair: Pair, namespace: Namespace) -> None:
    runs = [f"/{number:03}" + ("/x" if number % 11 in (3, 4, 9) else "") for number in range(300)]
    put(pair, namespace, [*runs, *(f"{key}/y" for key in runs if key.endswith("x"))])
    shown = [key.removesuffix("x") for key in runs]
    assert pair.keys(namespace, "/", delimiter="/") == shown
    for limit in (1, 2, 63, 64, 65, 299, 300):
        assert pair.keys(namespace, "/", delimiter="/", limit=limit) == shown[:limit]


def test_the_last_of_all_characters_ends_what_is_rolled_up_too(pair: Pair, namespace: Namespace) -> None:
    put(
        pair,
        namespace,
        ["/a", f"/a{LAST}", f"/a{LAST}b", f"/a{LAST}{LAST}", "/b", f"/{LAST}/c", f"/{LAST * 3}"],
    )
    shown = ["/a", f"/a{LAST}", "/b", f"/{LAST}"]
    assert pair.keys(namespace, "/", delimiter=LAST) == shown
    for place, after in enumerate(shown, 1):
        assert pair.keys(namespace, "/", delimiter=LAST, after=after) == shown[place:]
    assert pair.keys(namespace, f"/{LAST}", delimiter="/") == [f"/{LAST}/", f"/{LAST * 3}"]


def test_a_limit_of_nothing_and_an_unknown_namespace_answer_nothing(pair: Pair, namespace: Namespace) -> None:
    put(pair, namespace, TREE)
    assert pair.keys(namespace, "/", limit=0) == pair.keys(namespace, limit=0) == []
    assert pair.keys(("nowhere",), "/") == pair.keys(("nowhere",)) == []
    assert pair.keys(namespace[:1], "/") == pair.keys(namespace[:1]) == []


def test_a_batch_lists_what_it_has_put_so_far(pair: Pair, namespace: Namespace) -> None:
    listing = ListKeys(namespace, "/", delimiter="/")
    batch: list[Operation] = [
        listing,
        file(namespace, "/a"),
        file(namespace, "/b/c"),
        listing,
        Delete(namespace, "/a"),
        ListKeys(namespace, "/"),
        Count(namespace),
    ]
    results = pair.postgres.apply(batch)
    found = bare([results[place] for place in (0, 3, 5)])
    assert [[each.key for each in entries] for entries in found] == [[], ["/a", "/b/"], ["/b/c"]]
    assert results[-1] == 1


def test_listings_are_reads_that_each_make_a_trip_of_their_own() -> None:
    batches: list[list[Operation]] = [[NOWHERE], [Get(("nowhere",), "k")], [NOWHERE], [NOWHERE, NOWHERE]]
    assert trips(batches) == [[0], [1], [2], [3]]
    assert kind_of(batches[:1]) == kind_of(batches) == "each alone"


async def test_listings_of_several_callers_at_once_are_answered_beside_their_puts(
    pair: Pair, namespace: Namespace
) -> None:
    put(pair, namespace, TREE)
    listing = ListKeys(namespace, "/b/", delimiter="/")
    batches: list[list[Operation]] = [
        [listing],
        [file((*namespace, str(number)), "/new") for number in range(3)],
        [Get(namespace, "/d")],
        [NOWHERE, listing],
    ]
    found = [await pair.postgres.aapply_each(batches)]
    found += await asyncio.gather(*(pair.postgres.aapply_each(batches) for _ in range(6)))
    for outcomes in found:
        assert bare(outcomes[0]) == bare(listed(pair.memory, listing))
        assert bare(outcomes[3]) == bare(listed(pair.memory, NOWHERE, listing))


def test_every_way_to_put_notes_what_is_known_of_a_file(pair: Pair, namespace: Namespace) -> None:
    def stats() -> dict[str, Stat | None]:
        (entries,) = listed(pair.postgres, ListKeys(namespace, "/"))
        return {
            entry.key: None if entry.size is None else Stat(entry.size, entry.modified_at)
            for entry in entries
        }

    first, second, no_time = Stat(1, "first"), Stat(2**40, "second"), Stat(0, None)
    several = [Put(namespace, f"/{n}", b"{}", stat=stat) for n, stat in enumerate([first, None, no_time])]
    pair.postgres.apply(several)
    assert stats() == {"/0": first, "/1": None, "/2": no_time}
    pair.postgres.apply([put._replace(stat=second) for put in several])
    assert stats() == {"/0": second, "/1": second, "/2": second}
    pair.postgres.apply([put._replace(stat=None) for put in several])
    assert stats() == {"/0": None, "/1": None, "/2": None}

    absent = Put(namespace, "/alone", b"{}", stat=first, if_absent=True)
    record = pair.postgres.put(absent)
    with pytest.raises(Conflict):
        pair.postgres.put(absent._replace(stat=second))
    assert stats()["/alone"] == first
    expected = absent._replace(stat=no_time, if_absent=False, if_revision=record.revision)
    record = pair.postgres.put(expected)
    with pytest.raises(Conflict):
        pair.postgres.put(expected._replace(stat=second))
    assert listed(pair.postgres, ListKeys(namespace, "/al")) == [
        [KeyEntry("/alone", record.revision, record.updated_at, *no_time)]
    ]


def test_an_item_that_was_read_lately_is_listed_as_long_as_readers_find_it(
    pair: Pair, namespace: Namespace
) -> None:
    pair.apply([file(namespace, "/kept", ttl=1.0), file(namespace, "/left", ttl=1.0)])
    pair.clock.advance(seconds=59)
    stores: list[Items] = [pair.postgres, pair.memory]
    for items in stores:
        assert items.get(Get(namespace, "/kept", refresh=True))
    pair.clock.advance(seconds=59)
    assert pair.keys(namespace, "/") == pair.keys(namespace, "/", delimiter="/") == ["/kept"]
    assert pair.keys(namespace) == ["/kept"]
    # Listing it has refreshed nothing.
    pair.clock.advance(seconds=1)
    assert pair.keys(namespace, "/") == pair.keys(namespace) == []
