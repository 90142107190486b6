"""Keys listed by SQLite's indexes: as the reference lists them, and at the cost of what is shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateroom import DeleteItem, InMemoryStore, ListItemKeys, ManualClock, PutItem, SqliteStore
from stateroom.drivers.sqlite.items import SqliteItems
from stateroom.model.item import KeyEntry

FILES = ("files",)

ROW = 20
"""More steps of SQLite's machine than a row of a listing takes: Python always reads one row ahead."""

# Both sides of where paths begin and end, of the surrogates, and of one, two, three and four bytes as UTF-8.
CHARACTERS = "/.0ab\x01\x7f\x80\ud7ff\ue000\uffff\U00010000\U0010ffff"
texts = st.text(st.sampled_from(CHARACTERS + "//aa"), max_size=5)
paths = texts.map("/{}".format)
keys = st.one_of(paths, paths, texts)
values = st.fixed_dictionaries(
    {"content": st.one_of(st.lists(texts, max_size=2), texts, st.none())},
    optional={"modified_at": st.sampled_from(["2026-01-02T03:04:05Z", 5, None]), "n": st.just(10**30)},
)
puts = st.builds(
    PutItem,
    st.sampled_from([FILES, FILES, ("other",)]),
    keys,
    values,
    index=st.none(),
    ttl=st.sampled_from([None, None, None, 1, 3]),
    if_revision=st.none(),
    if_absent=st.just(False),
)
listings = st.builds(
    ListItemKeys,
    st.just(FILES),
    prefix=st.one_of(st.just(""), st.just("/"), keys),
    suffix=st.one_of(st.just(""), texts),
    delimiter=st.one_of(st.none(), st.just("/"), st.sampled_from(CHARACTERS)),
    after=st.one_of(st.none(), keys),
    limit=st.sampled_from([1000, 1000, 4, 1, 0]),
    containing=st.one_of(st.none(), texts),
    values=st.booleans(),
)


def facts(entries: Sequence[KeyEntry]) -> list[tuple[Any, ...]]:
    return [
        (each.key, each.is_prefix, each.revision, each.updated_at, each.size, each.modified_at, each.value)
        for each in entries
    ]


def shown(entries: Sequence[KeyEntry]) -> list[str]:
    return [each.key for each in entries]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[SqliteStore]:
    with SqliteStore(clock=clock) as store:
        yield store


def put(store: SqliteStore, *names: str, **options: Any) -> None:
    store.batch([PutItem(FILES, name, {"content": [name]}, **options) for name in names])


@given(st.lists(puts, max_size=30), st.lists(listings, min_size=5, max_size=15))
@settings(max_examples=150)
def test_random_keys_are_listed_as_the_reference_lists_them(
    puts: list[PutItem], listings: list[ListItemKeys]
) -> None:
    clock = ManualClock()
    with SqliteStore(clock=clock) as store, InMemoryStore(clock=clock) as reference:
        for operation in puts:
            store.batch([operation])
            reference.batch([operation])
        clock.advance(minutes=2)
        for asked in listings:
            assert facts(store.batch([asked])[0]) == facts(reference.batch([asked])[0])
            whole = asked._replace(limit=1000)
            assert paged(store, asked) == facts(reference.batch([whole])[0])


def paged(store: SqliteStore, asked: ListItemKeys) -> list[tuple[Any, ...]]:
    """Return the entries of all pages of three, each begun behind the last key of the one before."""
    entries: list[KeyEntry] = []
    asked = asked._replace(limit=3)
    while True:
        page = store.batch([asked])[0]
        entries += page
        if len(page) < 3:
            return facts(entries)
        asked = asked._replace(after=page[-1].key)


def test_the_order_is_by_code_point_where_that_of_utf16_differs(store: SqliteStore) -> None:
    names = ["/\ud7ff", "/\ue000", "/\uffff", "/\U00010000", "/\U0010ffff"]
    put(store, *reversed(names))
    assert shown(store.list_keys(FILES, prefix="/")) == names
    assert shown(store.list_keys(FILES, prefix="/\uffff")) == ["/\uffff"]
    assert shown(store.list_keys(FILES, prefix="/\U0010ffff")) == ["/\U0010ffff"]
    assert shown(store.list_keys(FILES, prefix="/", after="/\uffff")) == names[3:]


def test_behind_what_the_last_character_begins_there_is_nothing(store: SqliteStore) -> None:
    last = "\U0010ffff"
    put(store, f"{last}a", f"{last}b")
    assert shown(store.list_keys(FILES, delimiter=last)) == [last]
    assert store.list_keys(FILES, delimiter=last, after=f"{last}a") == []


def test_keys_before_and_behind_the_paths_are_listed_with_them(store: SqliteStore) -> None:
    names = [".", "/", "/a", "/a/b", "0", "a/b"]
    put(store, *reversed(names))
    assert shown(store.list_keys(FILES)) == names
    assert shown(store.list_keys(FILES, limit=5)) == names[:5]
    assert shown(store.list_keys(FILES, after="/a")) == names[3:]
    assert shown(store.list_keys(FILES, delimiter="/")) == [".", "/", "0", "a/"]
    assert shown(store.list_keys(FILES, delimiter="/", after="/")) == ["0", "a/"]


def test_a_suffix_asks_for_what_lies_below_a_rolled_up_beginning(store: SqliteStore) -> None:
    put(store, "/a/x.md", "/a/y.py", "/b/x.md", "/c.md", "/c.py", "/d/e/f.py")
    assert shown(store.list_keys(FILES, prefix="/", suffix=".py", delimiter="/")) == ["/a/", "/c.py", "/d/"]
    assert shown(store.list_keys(FILES, prefix="/", suffix="/c.md")) == ["/c.md"]
    assert store.list_keys(FILES, prefix="/c", suffix="longer than/c.md") == []


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("", ["/a/", "/b", "/c/"]),
        ("/", ["/a/", "/b", "/c/"]),
        ("/a", ["/a/", "/b", "/c/"]),
        ("/a/", ["/b", "/c/"]),
        ("/a/1", ["/b", "/c/"]),
        ("/a/zzz/", ["/b", "/c/"]),
        ("/b", ["/c/"]),
        ("/c/2", []),
        ("/d", []),
        ("x", []),
    ],
)
def test_a_page_may_go_on_before_within_and_behind_what_is_rolled_up(
    store: SqliteStore, after: str, expected: list[str]
) -> None:
    put(store, "/a/1", "/a/2", "/b", "/c/1", "/c/3")
    assert shown(store.list_keys(FILES, prefix="/", delimiter="/", after=after)) == expected


def test_what_a_put_says_of_a_file_is_kept_by_whichever_way_it_is_put(store: SqliteStore) -> None:
    file = {"content": ["é", ""], "modified_at": "2026-01-02T03:04:05Z"}
    store.put(FILES, "/one", file)
    store.put(FILES, "/one", {"content": 1})
    store.put(FILES, "/two", {"content": 1})
    store.put(FILES, "/two", file)
    store.batch([PutItem(FILES, "plain", file), PutItem(FILES, "/three", file), PutItem(FILES, "/4", {})])
    store.batch([PutItem(FILES, "/five", file, if_absent=True)])
    at = file["modified_at"]
    assert [(each.key, each.size, each.modified_at) for each in store.list_keys(FILES)] == [
        ("/4", None, None),
        ("/five", 3, at),
        ("/one", None, None),
        ("/three", 3, at),
        ("/two", 3, at),
        ("plain", None, None),
    ]


def test_a_batch_lists_what_it_has_written_itself(store: SqliteStore) -> None:
    put(store, "/a", "/b/1")
    ls = ListItemKeys(FILES, prefix="/", delimiter="/")
    before, _, _, between, _, after = store.batch(
        [ls, PutItem(FILES, "/c", {}), DeleteItem(FILES, "/a"), ls, DeleteItem(FILES, "/b/1"), ls]
    )
    assert [shown(each) for each in (before, between, after)] == [["/a", "/b/"], ["/b/", "/c"], ["/c"]]


def test_an_expired_item_neither_shows_nor_makes_a_beginning_show(
    store: SqliteStore, clock: ManualClock
) -> None:
    put(store, "/a/1", "/b", ttl=1)
    put(store, "/a/2", "/c/1", ttl=2)
    clock.advance(minutes=1)
    assert shown(store.list_keys(FILES, prefix="/", delimiter="/")) == ["/a/", "/c/"]
    clock.advance(minutes=1)
    assert store.list_keys(FILES) == []


@pytest.mark.parametrize("in_a_write", [False, True])
def test_an_item_whose_refreshed_expiry_is_not_yet_written_is_alive(
    store: SqliteStore, clock: ManualClock, in_a_write: bool
) -> None:
    put(store, "/a/1", "/b", ttl=1)
    clock.advance(seconds=45)
    store.get(FILES, "/a/1", refresh_ttl=True)
    clock.advance(seconds=45)
    written = [PutItem(("other",), "k", {})] if in_a_write else []
    (found,) = store.batch([*written, ListItemKeys(FILES, prefix="/", delimiter="/")])[-1:]
    assert shown(found) == ["/a/"]


def test_a_listing_refreshes_nothing(store: SqliteStore, clock: ManualClock) -> None:
    put(store, "/a", ttl=1)
    clock.advance(seconds=45)
    assert shown(store.list_keys(FILES, values=True)) == ["/a"]
    clock.advance(seconds=15)
    assert store.list_keys(FILES) == []


def opened(store: SqliteStore) -> sqlite3.Connection:
    """Return the only connection of a store in memory."""
    items = store._items
    assert isinstance(items, SqliteItems)
    return items._db.open()


def steps(store: SqliteStore, **asked: Any) -> int:
    """Return how many steps SQLite's machine takes for a listing, which depends on nothing but the file."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    store.list_keys(FILES, **asked)
    connection = opened(store)
    connection.set_progress_handler(count, 1)
    store.list_keys(FILES, **asked)
    connection.set_progress_handler(None, 1)
    return counted


@pytest.mark.parametrize(
    "asked",
    [
        {"prefix": "/docs/", "delimiter": "/"},
        {"prefix": "/docs/"},
        {"prefix": "/docs/", "suffix": ".md", "delimiter": "/"},
        {"prefix": "/docs/", "containing": "1"},
        {"prefix": "/", "delimiter": "/"},
        {"prefix": "/", "delimiter": "/", "after": "/docs/"},
        {"prefix": "note"},
        {"limit": 2},
    ],
    ids=str,
)
def test_what_lies_elsewhere_costs_no_step(store: SqliteStore, asked: dict[str, Any]) -> None:
    put(store, "/a/1", "/docs/1.md", "/docs/2.md", "/docs/deep/1.md", "/z/1", "note1", "note2")
    alone = steps(store, **asked)
    put(store, *(f"/{name}/x{n}" for name in ("a", "z") for n in range(300)))
    put(store, *(f"other{n}" for n in range(300)))
    store.batch([PutItem(("others", str(n % 7)), f"/docs/{n}", {"content": ["1"]}) for n in range(300)])
    assert steps(store, **asked) <= alone + ROW


def test_what_lies_below_a_rolled_up_beginning_costs_no_step(store: SqliteStore) -> None:
    put(store, "/a/1", "/a/b/1", "/a/c")
    for asked in ({"prefix": "/", "delimiter": "/"}, {"prefix": "/a/", "delimiter": "/"}):
        alone = steps(store, **asked)
        put(store, *(f"/a/b/{n}" for n in range(300)))
        assert steps(store, **asked) <= alone + ROW


@pytest.mark.parametrize("delimiter", [None, "/"])
def test_a_page_reads_no_further_than_its_last_entry(store: SqliteStore, delimiter: str | None) -> None:
    put(store, *(f"/d{n:03}/{m}.md" for n in range(100) for m in range(3)))
    asked = {"prefix": "/", "delimiter": delimiter}
    one = steps(store, limit=1, **asked)
    assert steps(store, limit=20, **asked) <= 25 * one
    assert steps(store, limit=1, containing="/d000/0", **asked) <= 2 * one
    # So the lines above are able to fail.
    assert steps(store, limit=2, containing="/d000/0", **asked) > 25 * one


def test_a_listing_of_large_files_reads_none(store: SqliteStore) -> None:
    large = "x" * 1_000_000
    store.batch([PutItem(FILES, f"/{n}", {"content": [large]}, index=False) for n in range(10)])
    connection = opened(store)
    (pages,) = connection.execute("pragma page_count").fetchone()
    assert pages > 2_000
    # No row that holds a file would be let into memory.
    limit = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
    try:
        sizes = [each.size for each in store.list_keys(FILES)]
    finally:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limit)
    assert sizes == [1_000_000] * 10
