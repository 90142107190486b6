"""Text search in Postgres gives what the in-memory reference gives, to the bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import psycopg
import pytest

from stateroom.clock import ManualClock
from stateroom.contract.items import Delete, Put, Query, Search
from stateroom.drivers.memory.items import MemoryItems
from stateroom.drivers.postgres import text, text_search, text_statistics
from stateroom.drivers.postgres.migrations import migrate
from stateroom.drivers.postgres.rows import address_of
from stateroom.drivers.postgres.scope import Scope
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.text import TextIndex, term_id
from stateroom.drivers.postgres.text_search import Scored, search_text
from stateroom.drivers.postgres.timing import Timing
from stateroom.drivers.postgres.where import where
from stateroom.drivers.postgres.writing import delete_all, put_all, register
from stateroom.model.filter import parse_filter
from stateroom.model.json_values import encode_value
from stateroom.model.limits import PAGE_NUMBER_MAX
from stateroom.model.namespace import Namespace
from stateroom.search.bm25 import Statistics
from stateroom.search.index_config import IndexSettings
from stateroom.search.text import TextIndexing
from tests.conftest import NewSchema

Found = list[tuple[UUID, float]]

WORDS = ["tea", "oolong", "kettle", "cup", "rain", "gin", "lamp", "moth", "fig", "oak"]


class Pair:
    """One schema, and the in-memory driver with the same items."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str, settings: IndexSettings) -> None:
        self.schema = schema
        self.clock = ManualClock()
        self.session = Session(connection, schema, Timing(self.clock), prepares=True)
        self.index = TextIndex(TextIndexing(settings))
        self.memory = MemoryItems(settings, index_keys=(), clock=self.clock)
        migrate(self.session, schema)
        self.index.prepare(self.session)

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        paths: tuple[str, ...] | None = None,
        *,
        ttl: float | None = None,
        analysed: bool = True,
    ) -> None:
        """Put an item on both sides; in Postgres without terms unless it is ``analysed``."""
        operation = Put(namespace, key, encode_value(value), paths, ttl=ttl)
        register(self.session, [namespace])
        put_all(self.session, self.index if analysed else None, [operation])
        self.memory.apply([operation])

    def lock(self, connection: psycopg.Connection[Any], key: str) -> None:
        """Lock a row for the transaction of another connection."""
        session = Session(connection, self.schema, Timing(self.clock), prepares=True)
        session.execute("select 1 from stateroom.item where key = %(key)s for update", {"key": key})

    def delete(self, namespace: Namespace, key: str) -> None:
        """Delete an item on both sides."""
        delete_all(self.session, [Delete(namespace, key)])
        self.memory.apply([Delete(namespace, key)])

    def search(
        self,
        query: str,
        prefix: Namespace = (),
        filter: Mapping[str, Any] | None = None,
        need: int = 10,
    ) -> list[Scored]:
        """Search in Postgres."""
        parsed = parse_filter(filter)
        condition = None if parsed is None else where(parsed)
        scope = Scope(self.session, prefix)
        return search_text(self.session, self.index, scope, query, condition, need)

    def expected(
        self,
        query: str,
        prefix: Namespace = (),
        filter: Mapping[str, Any] | None = None,
        need: int = 10,
    ) -> Found:
        """Return what the in-memory driver finds."""
        search = Search(prefix, parse_filter(filter), need, query=Query(query, "text"))
        hits = self.memory.search(search)
        return [(address_of(hit.record.namespace, hit.record.key), hit.score or 0.0) for hit in hits]

    def check(self, query: str, **options: Any) -> None:
        """Compare one search, of which there must be something to find."""
        found = bare(self.search(query, **options))
        assert found == self.expected(query, **options)
        assert found


def bare(found: Sequence[Scored]) -> Found:
    return [(scored.address, scored.score) for scored in found]


@pytest.fixture
def make_pair(postgres: str, new_schema: NewSchema) -> Iterator[Callable[..., Pair]]:
    with ExitStack() as stack:

        def make(settings: IndexSettings = IndexSettings()) -> Pair:  # noqa: B008  # it is frozen
            connection = stack.enter_context(psycopg.connect(postgres, autocommit=True))
            return Pair(connection, new_schema(), settings)

        yield make


@pytest.fixture
def pair(make_pair: Callable[..., Pair]) -> Pair:
    return make_pair()


@pytest.fixture(params=["scanned", "looked up", "known"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have scopes searched in each of the ways that their size decides between."""
    if request.param != "scanned":
        monkeypatch.setattr(text_search, "SCAN_MAX", 3)
        monkeypatch.setattr(text_search, "FIRST_LOOK", 1)
    if request.param == "known":
        monkeypatch.setattr(text_statistics, "STATISTICS_EXACT", 0)
        monkeypatch.setattr(text_statistics, "PUTS_SHARE", 0.0)


def fill(pair: Pair, seed: int, number: int) -> None:
    """Put items of three namespaces, whose words are the rarer the later they come in ``WORDS``."""
    chance = random.Random(seed)
    for at in range(number):
        words = chance.choices(WORDS, [2.0**-rank for rank in range(len(WORDS))], k=chance.randint(1, 9))
        value = {"text": " ".join(words), "kind": chance.choice(["a", "b"])}
        namespace = chance.choice([("org", "ann"), ("org", "bob"), ("zoo",)])
        pair.put(namespace, f"k{at}", value, ttl=chance.choice([None, None, 5.0]))
        pair.clock.advance(seconds=1)


QUERIES = [
    "tea",
    "oak",
    "tea oak",
    "kettle cup tea rain",
    " ".join(WORDS),
    "tea missing",
    "the a",
    "moth fig",
]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("seed", range(2))
def test_scores_are_those_of_the_reference(pair: Pair, seed: int) -> None:
    fill(pair, seed, 80)
    pair.delete(("zoo",), "k1")
    pair.delete(("org", "ann"), "k2")
    for prefix in ((), ("org",), ("org", "ann"), ("zoo",), ("nobody",)):
        for query in QUERIES:
            for condition in (None, {"kind": "a"}, {"text": {"$contains": "oolong"}}, {"kind": "none"}):
                for need in (1, 6, 500):
                    found = bare(pair.search(query, prefix, condition, need))
                    assert found == pair.expected(query, prefix, condition, need), (prefix, query, condition)


@pytest.mark.usefixtures("way")
def test_expired_documents_do_not_count(pair: Pair) -> None:
    for at in range(5):
        pair.put(("n",), f"k{at}", {"text": "tea " * (at + 1)}, ttl=1.0 if at % 2 else None)
    pair.check("tea", prefix=("n",))
    pair.clock.advance(minutes=2)
    pair.check("tea", prefix=("n",))
    assert len(pair.search("tea", ("n",))) == 3


@pytest.mark.usefixtures("way")
def test_a_filter_moves_no_score(pair: Pair) -> None:
    fill(pair, 1, 60)
    everything = dict(bare(pair.search("tea rain", need=100)))
    some = bare(pair.search("tea rain", filter={"kind": "a"}, need=100))
    assert 0 < len(some) < len(everything)
    assert all(everything[address] == score for address, score in some)


@pytest.mark.usefixtures("way")
def test_other_tenants_move_no_score(pair: Pair) -> None:
    for at in range(6):
        pair.put(("mine",), f"k{at}", {"text": "tea rain"[: 3 + at]})
    before = pair.search("tea rain", ("mine",))
    for at in range(20):
        pair.put(("theirs", str(at)), "k", {"text": "rain and more rain"})
    assert pair.search("tea rain", ("mine",)) == before


@pytest.mark.usefixtures("way")
def test_equal_scores_come_by_the_latest_put_on_every_page(pair: Pair) -> None:
    for at in range(12):
        pair.put(("n",), f"k{at}", {"text": "tea cup"})
        pair.clock.advance(seconds=at % 2)
    whole = [address_of(("n",), f"k{at}") for at in reversed(range(12))]
    for need in (1, 5, 12, 30, PAGE_NUMBER_MAX * 2):
        assert [scored.address for scored in pair.search("cup tea", need=need)] == whole[:need]


def test_a_page_of_telling_terms_does_without_the_common_ones(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "SCAN_MAX", 3)
    monkeypatch.setattr(text_search, "FIRST_LOOK", 1)
    for at in range(60):
        pair.put(("n",), f"k{at}", {"text": "tea oak" if at % 20 == 0 else "tea " * (1 + at % 5)})
    looked_for: list[int] = []
    top = text_search._Search._top

    def counted(self: Any, scorer: Any, places: Any) -> Any:
        looked_for.append(len(places))
        return top(self, scorer, places)

    monkeypatch.setattr(text_search._Search, "_top", counted)
    pair.check("tea oak", need=3)
    assert looked_for == [1]
    pair.check("tea oak", need=4)
    assert looked_for == [1, 2]
    # How few of the rare ones the filter leaves is known only when they have been read.
    pair.check("tea oak", need=2, filter={"text": {"$ne": "tea oak"}})
    assert looked_for == [1, 2, 1, 2]


def test_what_is_known_of_a_wide_scope_is_counted_anew_in_time(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "SCAN_MAX", 3)
    monkeypatch.setattr(text_statistics, "STATISTICS_EXACT", 10)
    monkeypatch.setattr(text_statistics, "PUTS_SHARE", 0.25)
    for at in range(20):
        pair.put(("n",), f"k{at}", {"text": "tea cup"})
    pair.check("tea")
    for at in range(5):
        pair.put(("n",), f"more{at}", {"text": "tea"})
    assert bare(pair.search("tea")) != pair.expected("tea")
    pair.put(("n",), "one more", {"text": "tea"})
    pair.check("tea")
    pair.delete(("n",), "k0")
    assert bare(pair.search("tea")) != pair.expected("tea")
    pair.clock.advance(minutes=1.1)
    pair.check("tea")


def test_a_scope_that_is_wide_no_more_is_still_ranked_right(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "SCAN_MAX", 3)
    for at in range(5):
        pair.put(("n",), f"k{at}", {"text": "tea cup"})
    pair.check("tea", prefix=("n",))
    assert pair.index.known.has(("n",))
    for at in range(3):
        pair.delete(("n",), f"k{at}")
    pair.check("tea", prefix=("n",))
    assert not pair.index.known.has(("n",))


@pytest.mark.usefixtures("way")
def test_paths_decide_what_is_found(pair: Pair) -> None:
    value = {"title": "tea", "body": "rain", "hidden": "moth"}
    pair.put(("n",), "configured", value)
    pair.put(("n",), "title", value, ("title",))
    pair.put(("n",), "nothing", value, ())
    pair.put(("n",), "empty", {})
    for query, number in (("tea", 2), ("rain", 1), ("moth", 1)):
        assert len(pair.search(query)) == number
        pair.check(query)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("pending_max", [100, 0])
def test_items_of_a_store_without_a_text_index_are_found(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, pending_max: int
) -> None:
    monkeypatch.setattr(text_search, "PENDING_MAX", pending_max)
    monkeypatch.setattr(text, "BATCH_ITEMS", 2)
    for at in range(6):
        pair.put(("n",), f"k{at}", {"text": f"tea {WORDS[at]}"}, analysed=False)
        pair.put(("n",), f"a{at}", {"text": f"tea oolong {WORDS[at]}"})
    pair.put(("n",), "title", {"title": "tea", "body": "moth"}, ("title",), analysed=False)
    pair.put(("n",), "nothing", {"text": "moth"}, (), analysed=False)
    pair.put(("other",), "k", {"text": "tea"}, analysed=False)
    for query in ("tea", "tea kettle", "oolong moth"):
        pair.check(query, prefix=("n",), need=20)
    lacking = pair.session.fetch("select key from stateroom.item where terms is null order by key")
    assert len(lacking) == (1 if pending_max == 0 else 9)
    pair.check("tea", need=20)
    pair.check("tea", filter={"text": "tea kettle"})


@pytest.mark.usefixtures("way")
def test_where_nothing_may_be_written_items_are_found_all_the_same(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "PENDING_MAX", 0)
    for at in range(6):
        pair.put(("n",), f"k{at}", {"text": f"tea {WORDS[at]}"}, analysed=False)
    with pair.session.connection.transaction():
        pair.session.execute("set transaction read only")
        pair.check("tea kettle")
    assert pair.session.fetch("select count(*) from stateroom.item where terms is null") == [(6,)]


def test_a_text_that_another_writes_is_passed_over_and_found(
    postgres: str, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "PENDING_MAX", 0)
    for at in range(6):
        pair.put(("n",), f"k{at}", {"text": "tea"}, analysed=False)
    with psycopg.connect(postgres) as other:
        pair.lock(other, "k3")
        pair.check("tea")
        lacking = pair.session.fetch("select key from stateroom.item where terms is null")
        assert lacking == [("k3",)]


def terms_of(session: Session) -> dict[str, set[int]]:
    return {key: set(terms) for key, terms in session.fetch("select key, terms from stateroom.item")}


def test_other_rules_index_everything_anew(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BATCH_ITEMS", 4)
    for at in range(10):
        pair.put(("n",), f"k{at}", {"text": "running cups"}, analysed=at % 3 > 0)
    german = TextIndex(TextIndexing(IndexSettings(language="none")))
    assert not german.is_prepared(pair.session)
    german.prepare(pair.session)
    assert german.is_prepared(pair.session)
    assert set(map(frozenset, terms_of(pair.session).values())) == {
        frozenset({term_id("running"), term_id("cups")})
    }
    assert not pair.index.is_prepared(pair.session)
    pair.index.prepare(pair.session)
    pair.check("run cup")


def test_indexing_that_broke_off_goes_on_where_it_was(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BATCH_ITEMS", 2)
    for at in range(9):
        pair.put(("n",), f"k{at}", {"text": f"running {WORDS[at]}"})
    other = TextIndex(TextIndexing(IndexSettings(language="none")))
    analysed: list[bytes] = []
    columns = other.columns

    def failing(raw: bytes, paths: Sequence[str] | None) -> text.TextColumns:
        if len(analysed) == 5:
            raise ConnectionError("the process dies here")
        analysed.append(raw)
        return columns(raw, paths)

    monkeypatch.setattr(other, "columns", failing)
    with pytest.raises(ConnectionError):
        other.prepare(pair.session)
    assert not other.is_prepared(pair.session)
    assert not pair.index.is_prepared(pair.session)
    resumed = TextIndex(TextIndexing(IndexSettings(language="none")))
    read: list[int] = []
    index = resumed._index

    def counted(session: Session, rows: Sequence[Any], *, waits: bool) -> int:
        read.append(len(rows))
        return index(session, rows, waits=waits)

    monkeypatch.setattr(resumed, "_index", counted)
    resumed.prepare(pair.session)
    # The two batches that were written are not read again.
    assert sum(read) == 9 - 4
    assert all(term_id("running") in terms for terms in terms_of(pair.session).values())


def test_indexing_anew_waits_for_who_writes_and_keeps_what_they_wrote(
    postgres: str, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(4):
        pair.put(("n",), f"k{at}", {"text": "running"})
    other = TextIndex(TextIndexing(IndexSettings(language="none")))
    write = text._write
    with psycopg.connect(postgres) as writer:
        pair.lock(writer, "k1")
        waited: list[UUID] = []

        def writing(session: Session, documents: Any, waiting: str) -> set[UUID]:
            if not waiting:
                waited.extend(row.address for row, _ in documents)
                writer.commit()
            return write(session, documents, waiting)

        monkeypatch.setattr(text, "_write", writing)
        other.prepare(pair.session)
    assert waited == [address_of(("n",), "k1")]
    assert all(terms == {term_id("running")} for terms in terms_of(pair.session).values())


def test_what_was_put_after_it_was_read_is_not_overwritten(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.put(("n",), "k", {"text": "old"}, analysed=False)
    columns = pair.index.columns

    def late(raw: bytes, paths: Sequence[str] | None) -> text.TextColumns:
        monkeypatch.setattr(pair.index, "columns", columns)
        result = columns(raw, paths)
        pair.put(("n",), "k", {"text": "new"})
        return result

    monkeypatch.setattr(pair.index, "columns", late)
    assert not pair.index.catch_up(pair.session, Scope(pair.session, ("n",)))
    assert terms_of(pair.session) == {"k": {term_id("new")}}


def test_batches_are_bounded_in_bytes(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BATCH_BYTES", 1_000)
    for at in range(5):
        pair.put(("n",), f"k{at}", {"text": "tea " * 400}, analysed=False)
    scope = Scope(pair.session, ("n",))
    batch = text._next(pair.session, None, "i.terms is null", {})
    assert len(batch) == 1
    assert pair.index.catch_up(pair.session, scope)
    pair.check("tea")


def test_a_text_of_many_different_words_is_stored_and_found(pair: Pair) -> None:
    words = " ".join(f"w{at}" for at in range(30_000))
    pair.put(("n",), "large", {"text": words})
    pair.put(("n",), "small", {"text": "w1 w29999"})
    pair.check("w29999")
    columns = pair.index.columns(encode_value({"text": words}), None)
    assert columns.length == len(columns.terms) == len(set(columns.terms)) == 30_000


def test_a_term_is_a_signed_number_of_64_bits_that_never_changes() -> None:
    assert term_id("tea") == -5015453343862700912
    assert all(-(2**63) <= term_id(word) < 2**63 for word in WORDS)


def test_digests_are_forgotten_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "TERMS_KNOWN", 3)
    known = text._TermIds()
    numbers = [known[word] for word in WORDS]
    assert len(known) <= 3
    assert numbers == [term_id(word) for word in WORDS]


def test_scopes_are_forgotten_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_statistics, "SCOPES_KNOWN", 2)
    known = text_statistics.KnownStatistics()
    for at in range(5):
        moment = text_statistics.Moment(revision=at, now=at)
        known.note((str(at),), Statistics(20_000, 1), moment, is_wide=True)
    assert sum(known.has((str(at),)) for at in range(5)) <= 2
    assert known.has(("4",))
