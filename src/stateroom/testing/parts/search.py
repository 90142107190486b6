"""What a query finds by words, and in which order."""

from __future__ import annotations

import pytest

from stateroom.contract.items import Capability
from stateroom.errors import NotSupported
from stateroom.search.bm25 import Statistics, score, weights
from stateroom.stores.operations import PutItem
from stateroom.testing.harness import Harness, Memory, Opens
from stateroom.testing.needs import needs

__all__ = ["SearchSuite"]

NOTES = {
    "run": "She was running in the park every morning",
    "coffee": "He prefers strong coffee without milk",
    "cafe": "The Café du Monde closes at noon",
    "code": "parse_config failed in http.client with ERR-4042 for user@example.org",
    "camel": "the parseConfigFile helper",
    "cjk": "我喜欢在北京喝咖啡",
    "japanese": "東京タワーに行きました",
    "korean": "서울에서 커피를 마셨다",
    "full width": "ＡＢＣ１２３ is full width",
    "german": "Die Straße nach Köln",
    "russian": "Мы живём в большом городе",
    "number": "there are 1234 reasons",
}

FOUND: dict[str, set[str]] = {
    "run": {"run"},
    "RUNS": {"run"},
    "runner running": {"run"},
    "coffee": {"coffee"},
    "cafe": {"cafe"},
    "CAFÉ": {"cafe"},
    "parse_config": {"code", "camel"},
    "config": {"code", "camel"},
    "parseConfigFile": {"camel", "code"},
    "http.client": {"code"},
    "err-4042": {"code"},
    "4042": {"code"},
    "user@example.org": {"code"},
    "咖啡": {"cjk"},
    "北京": {"cjk"},
    "东京": set(),
    "東京": {"japanese"},
    "タワー": {"japanese"},
    "커피": {"korean"},
    "abc123": {"full width"},
    "strasse": {"german"},
    "koln": {"german"},
    "городе": {"russian"},
    "1234": {"number"},
    "giraffe": set(),
    "coffe": set(),
    "of": set(),
}

ODD_QUERIES = [
    " ",
    "\n",
    "...",
    "()",
    "'",
    '"',
    '"unbalanced',
    "a AND",
    "NOT",
    "NEAR(",
    "*",
    "x*",
    "col:term",
    "-word",
    "^2",
    "{}",
    "\\",
    "%",
    "; drop table items",
    "\U0010ffff",
    "\u200b",
    "👩‍👩‍👧‍👦",
    "\x01",
    "word " * 5_000,
    "x" * 100_000,
    "the of and",
]


def fill(memory: Memory, root: str = "a") -> None:
    """Put the notes, each under a namespace of its own."""
    memory.batch([PutItem((root, name), name, {"text": text}) for name, text in NOTES.items()])


class SearchSuite(Harness):
    """A text query needs no embedder and means the same on every back end."""

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_words_are_folded_stemmed_and_split_alike_in_texts_and_queries(self, memory: Memory) -> None:
        fill(memory)
        fill(memory, "b")
        for mode in ("auto", "text"):
            assert {query: set(memory.keys(("a",), query=query, mode=mode)) for query in FOUND} == FOUND
        assert {query: len(memory.search(("a",), query=query)) for query in FOUND} == {
            query: len(names) for query, names in FOUND.items()
        }

    @needs(Capability.TEXT)
    def test_an_item_matches_when_it_holds_one_term_and_nothing_fills_the_page(self, memory: Memory) -> None:
        fill(memory)
        found = memory.search(("a",), query="coffee giraffe park", limit=10)
        assert {hit.key for hit in found} == {"coffee", "run"}

    @needs(Capability.TEXT)
    def test_scores_are_set_positive_and_descending(self, memory: Memory) -> None:
        memory.batch([PutItem(("a",), str(n), {"t": "giraffe " * n + "zebra " * 9}) for n in range(1, 9)])
        found = memory.search(("a",), query="giraffe", limit=20)
        scores = [hit.score for hit in found if hit.score is not None]
        assert len(scores) == 8
        assert scores == sorted(scores, reverse=True)
        assert min(scores) > 0

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_scores_are_bm25(self, memory: Memory) -> None:
        texts = {"one": "giraffe zebra", "two": "giraffe giraffe okapi lemur", "three": "tapir"}
        memory.batch([PutItem(("a",), name, {"t": text}) for name, text in texts.items()])
        lengths = {name: len(text.split()) for name, text in texts.items()}
        statistics = Statistics(documents=3, length=sum(lengths.values()))
        weight = weights(statistics, {"giraffe": 2, "okapi": 1})
        expected = {
            name: score(weight, frequency, lengths[name], statistics.average_length)
            for name, frequency in {"one": {"giraffe": 1}, "two": {"giraffe": 2, "okapi": 1}}.items()
        }
        found = memory.search(("a",), query="giraffe okapi")
        assert [hit.key for hit in found] == ["two", "one"]
        assert {hit.key: hit.score for hit in found} == pytest.approx(expected, rel=1e-12)

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_equal_scores_rank_the_latest_put_first(self, memory: Memory) -> None:
        for key in ("a", "b", "c"):
            memory.put(("n", key), key, {"t": "giraffe zebra"})
        assert memory.keys(("n",), query="giraffe") == ["c", "b", "a"]
        memory.put(("n", "a"), "a", {"t": "giraffe zebra", "x": None})
        assert memory.keys(("n",), query="giraffe") == ["a", "c", "b"]

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_another_tenant_moves_neither_ranking_nor_score(self, memory: Memory) -> None:
        mine = {"1": "giraffe zebra", "2": "giraffe okapi okapi", "3": "zebra tapir", "4": "lemur"}
        memory.batch([PutItem(("me", "notes"), key, {"t": text}) for key, text in mine.items()])
        query = "giraffe zebra okapi"
        before = [(hit.key, hit.score) for hit in memory.search(("me",), query=query)]
        memory.batch([PutItem(("you", str(n)), str(n), {"t": "giraffe giraffe gnu"}) for n in range(200)])
        memory.put(("mex",), "k", {"t": "okapi " * 50})
        memory.batch([PutItem(("you", str(n)), str(n), {"t": "okapi"}) for n in range(100)])
        for prefix in (("me",), ("me", "notes")):
            assert [(hit.key, hit.score) for hit in memory.search(prefix, query=query)] == before

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_statistics_are_those_of_the_prefix_not_of_the_filter(self, memory: Memory) -> None:
        memory.batch([PutItem(("a",), str(n), {"t": "giraffe zebra", "n": n}) for n in range(6)])
        everything = {hit.key: hit.score for hit in memory.search(("a",), query="giraffe")}
        (hit,) = memory.search(("a",), query="giraffe", filter={"n": 2})
        assert hit.score == everything["2"]

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_a_filter_and_a_query_must_both_hold(self, opens: Opens) -> None:
        memory = opens(index_keys=("kind",))
        memory.batch([PutItem(("a",), str(n), {"t": "giraffe", "kind": n % 3, "n": n}) for n in range(60)])
        memory.put(("a",), "other", {"t": "zebra", "kind": 1})
        assert memory.keys(("a",), query="giraffe", filter={"kind": 1}, limit=4) == ["58", "55", "52", "49"]
        assert memory.keys(("a",), query="giraffe", filter={"kind": 1}, limit=4, offset=18) == ["4", "1"]
        assert memory.keys(("a",), query="giraffe", filter={"n": {"$lt": 2}}) == ["1", "0"]
        assert memory.search(("a",), query="zebra", filter={"kind": 2}) == []

    @needs(Capability.TEXT)
    def test_pages_of_a_text_query_cut_one_order(self, memory: Memory) -> None:
        texts = [f"giraffe {'okapi ' * (n % 4)} {'zebra ' * (n % 7)}" for n in range(60)]
        memory.batch([PutItem(("a", str(n % 5)), str(n), {"t": text}) for n, text in enumerate(texts)])
        query = "giraffe okapi"
        everything = [(hit.key, hit.score) for hit in memory.search(("a",), query=query, limit=100)]
        assert len(everything) == 60
        for size in (1, 7, 59):
            pages = [memory.search(("a",), query=query, limit=size, offset=o) for o in range(0, 60, size)]
            assert [(hit.key, hit.score) for page in pages for hit in page] == everything
        assert memory.search(("a",), query=query, offset=60) == []
        assert memory.search(("a",), query=query, limit=0) == []

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_beyond_a_thousand_items_the_ranking_is_the_same(self, memory: Memory) -> None:
        puts = [
            PutItem(("a", str(n % 3)), str(n), {"t": f"w{n} giraffe {'zebra ' * (n % 5)}"})
            for n in range(1_500)
        ]
        memory.call("batch", puts)
        memory.put(("a", "0"), "best", {"t": "giraffe giraffe okapi"})
        first = memory.search(("a",), query="giraffe okapi", limit=3)
        assert [hit.key for hit in first] == ["best", "1495", "1490"]
        assert memory.keys(("a",), query="w77") == ["77"]
        assert memory.keys(("a",), query="giraffe", limit=2, offset=1_500) == ["4"]
        assert memory.keys(("a", "1"), query="w76 giraffe", limit=1) == ["76"]
        memory.delete(("a", "0"), "best")
        assert memory.keys(("a",), query="okapi") == []

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_an_odd_query_is_words_and_nothing_else(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"t": "giraffe"})
        for query in ODD_QUERIES:
            assert memory.search(("a",), query=query) == [], query[:50]
            assert memory.keys(("a",), query=f"{query[:500]} giraffe") == ["k"], query[:50]
        assert memory.count(("a",)) == 1

    @needs(Capability.TEXT)
    def test_an_empty_query_is_no_query(self, memory: Memory) -> None:
        memory.put(("a",), "one", {"t": "giraffe"})
        memory.put(("a",), "two", {"t": "zebra"})
        for mode in ("auto", "text"):
            assert [(hit.key, hit.score) for hit in memory.search(("a",), query="", mode=mode)] == [
                ("two", None),
                ("one", None),
            ]

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_stop_words_say_nothing_unless_nothing_else_is_asked(self, memory: Memory) -> None:
        memory.put(("a",), "stop", {"t": "to be or not to be"})
        memory.put(("a",), "telling", {"t": "giraffe"})
        assert memory.keys(("a",), query="to be a giraffe") == ["telling"]
        assert memory.keys(("a",), query="to be") == ["stop"]

    @needs(Capability.TEXT)
    def test_an_explained_hit_says_what_words_and_vectors_thought_of_it(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"t": "giraffe"})
        (hit,) = memory.search(("a",), query="giraffe", explain=True)
        assert hit.components == {"text": hit.score, "vector": None}
        assert memory.search(("a",), query="giraffe")[0].components is None
        (plain,) = memory.search(("a",), explain=True)
        assert plain.components == {"text": None, "vector": None}

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_the_language_of_the_texts_can_be_set(self, opens: Opens) -> None:
        memory = opens(index={"language": "german"})
        memory.put(("a",), "k", {"t": "Die Katzen schliefen"})
        assert memory.keys(("a",), query="katze") == ["k"]
        assert memory.keys(("a",), query="die") == ["k"]
        assert memory.keys(("a",), query="die hunde") == []

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_without_a_language_words_are_not_stemmed(self, opens: Opens) -> None:
        memory = opens(index={"language": "none"})
        memory.put(("a",), "k", {"t": "Running with scissors"})
        assert memory.keys(("a",), query="running") == ["k"]
        assert memory.keys(("a",), query="run") == []

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_a_store_without_a_text_index_lists_and_filters_only(self, opens: Opens) -> None:
        memory = opens(index={"text": False})
        memory.put(("a",), "k", {"t": "giraffe"})
        assert memory.keys(("a",), filter={"t": "giraffe"}) == memory.keys(("a",), query="") == ["k"]
        for options, field in (({}, "query"), ({"mode": "text"}, "mode"), ({"mode": "hybrid"}, "mode")):
            with pytest.raises(NotSupported) as caught:
                memory.search(("a",), query="giraffe", **options)
            assert (caught.value.code, caught.value.field) == ("not_supported", field)

    @pytest.mark.parametrize("mode", ["vector", "hybrid"])
    def test_a_store_without_an_embedder_refuses_modes_that_need_one(self, memory: Memory, mode: str) -> None:
        memory.put(("a",), "k", {"t": "giraffe"})
        for query in ("giraffe", "", None):
            with pytest.raises(NotSupported) as caught:
                memory.search(("a",), query=query, mode=mode)
            assert caught.value.field == "mode"
            assert isinstance(caught.value, NotImplementedError)

    @needs(Capability.TEXT)
    def test_texts_are_found_after_closing_if_the_store_is_durable(self, opens: Opens) -> None:
        memory = opens()
        fill(memory)
        memory.delete(("a", "run"), "run")
        before = [(hit.key, hit.score) for hit in memory.search(("a",), query="coffee config")]
        memory.close()
        again = opens()
        found = [(hit.key, hit.score) for hit in again.search(("a",), query="coffee config")]
        assert found == (before if Capability.DURABLE in opens.capabilities else [])
        assert again.search(("a",), query="run") == []
