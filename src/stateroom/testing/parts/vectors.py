"""What a query finds by vectors, and by vectors and words together."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stateroom.contract.items import Capability
from stateroom.errors import InvalidInput, Misconfigured, NotSupported
from stateroom.stores.items import SearchItem
from stateroom.stores.operations import PutItem, SearchItems
from stateroom.testing.embedders import Coordinates
from stateroom.testing.harness import Harness, Memory, Opens
from stateroom.testing.needs import needs
from stateroom.testing.snapshot import snapshot

__all__ = ["VectorsSuite"]

POINTS = {"east": "3 0", "north": "0 2", "north-east": "1 1", "west": "-1 0", "far": "30 60"}
QUERY = "2 1"


UNUSABLE: list[tuple[object, type[Misconfigured | InvalidInput], str]] = [
    ([[1.0]], Misconfigured, "index.dims"),
    ([[1.0, 2.0, 3.0]], Misconfigured, "index.dims"),
    ([[1.0, 2.0]] * 2, Misconfigured, "index.embed"),
    ([], Misconfigured, "index.embed"),
    (["ab"], Misconfigured, "index.embed"),
    (None, Misconfigured, "index.embed"),
    ([[1.0, math.nan]], InvalidInput, "index.embed"),
    ([[math.inf, 1.0]], InvalidInput, "index.embed"),
]


def by_hand(distance_type: str, text: str) -> float:
    """Return the score of a point for ``QUERY``."""
    (x, y), (a, b) = map(float, text.split()), map(float, QUERY.split())
    if distance_type == "l2":
        return -math.hypot(x - a, y - b)
    product = x * a + y * b
    return product if distance_type == "inner_product" else product / math.hypot(x, y) / math.hypot(a, b)


def scores_of(found: list[SearchItem]) -> dict[str, float | None]:
    """Return the scores of hits by their keys."""
    return {hit.key: hit.score for hit in found}


def opened(opens: Opens, **index: Any) -> Memory:
    """Return a store that embeds the field ``t``."""
    return opens(index={"embed": Coordinates(), "dims": 2, "fields": ["t"], **index})


def fill(memory: Memory, root: str = "a") -> None:
    """Put the points."""
    memory.batch([PutItem((root, name), name, {"t": text}) for name, text in POINTS.items()])


class VectorsSuite(Harness):
    """Vector search is exact and ranks all that has a vector; hybrid search fuses it with the words."""

    @needs(Capability.VECTOR)
    @pytest.mark.parametrize("distance_type", ["cosine", "l2", "inner_product"])
    def test_scores_are_the_metric_and_order_the_result(self, opens: Opens, distance_type: str) -> None:
        memory = opened(opens, distance_type=distance_type)
        fill(memory)
        memory.put(("a",), "without", {"other": "2 1"})
        expected = {name: by_hand(distance_type, text) for name, text in POINTS.items()}
        found = memory.search(("a",), query=QUERY, mode="vector")
        assert [hit.key for hit in found] == sorted(expected, key=lambda name: -expected[name])
        assert scores_of(found) == pytest.approx(expected, rel=1e-6)

    @needs(Capability.VECTOR)
    def test_cosine_is_the_metric_and_vectors_the_mode_unless_told_otherwise(self, opens: Opens) -> None:
        memory = opened(opens)
        fill(memory)
        for mode in ("auto", "vector"):
            found = memory.search(("a",), query=QUERY, mode=mode, limit=1)
            assert scores_of(found) == pytest.approx({"north-east": by_hand("cosine", "1 1")}, rel=1e-6)

    @needs(Capability.VECTOR)
    def test_a_zero_vector_is_like_nothing(self, opens: Opens) -> None:
        memory = opened(opens)
        memory.batch([PutItem(("a",), key, {"t": text}) for key, text in (("zero", "0 0"), ("east", "1 0"))])
        memory.put(("a",), "west", {"t": "-1 0"})
        found = memory.search(("a",), query="2 0")
        assert [hit.key for hit in found] == ["east", "zero", "west"]
        assert scores_of(found) == pytest.approx({"east": 1.0, "zero": 0.0, "west": -1.0})
        assert [hit.score for hit in memory.search(("a",), query="0 0")] == [0.0] * 3

    @needs(Capability.VECTOR)
    def test_an_item_scores_by_the_best_of_its_vectors(self, opens: Opens) -> None:
        memory = opened(opens, fields=["t", "more[*]"])
        memory.put(("a",), "several", {"t": "-1 0", "more": ["0 -1", "0 1"]})
        memory.put(("a",), "one", {"t": "1 1"})
        found = memory.search(("a",), query="0 1")
        assert scores_of(found) == pytest.approx({"several": 1.0, "one": 0.5**0.5})

    @needs(Capability.VECTOR)
    def test_equal_vectors_rank_the_latest_put_first(self, opens: Opens) -> None:
        memory = opened(opens)
        for key in ("a", "b", "c"):
            memory.put(("n", key), key, {"t": "1 2"})
        assert memory.keys(("n",), query="3 4") == ["c", "b", "a"]
        memory.put(("n", "a"), "a", {"t": "1 2", "x": 1})
        assert memory.keys(("n",), query="3 4") == ["a", "c", "b"]

    @needs(Capability.VECTOR)
    def test_a_prefix_and_a_filter_narrow_before_the_page_is_cut(self, opens: Opens) -> None:
        memory = opened(opens)
        memory.batch([PutItem(("a", str(n % 2)), str(n), {"t": f"{n} 9", "n": n}) for n in range(40)])
        memory.put(("b",), "other", {"t": "1 0"})
        assert memory.keys(("a",), query="1 0", limit=2) == ["39", "38"]
        assert memory.keys(("a", "0"), query="1 0", limit=2) == ["38", "36"]
        assert memory.keys(("a",), query="1 0", limit=2, offset=1, filter={"n": {"$lt": 9}}) == ["7", "6"]
        assert memory.keys(("a", "1"), query="1 0", filter={"n": {"$in": [2, 3]}}) == ["3"]
        assert memory.search(("c",), query="1 0") == []

    @needs(Capability.VECTOR)
    def test_pages_of_a_vector_query_cut_one_order(self, opens: Opens) -> None:
        memory = opened(opens)
        memory.batch([PutItem(("a", str(n % 3)), str(n), {"t": f"{n % 11} {n % 7}"}) for n in range(60)])
        everything = [(hit.key, hit.score) for hit in memory.search(("a",), query="5 3", limit=100)]
        assert len(everything) == 60
        for size in (1, 7, 59):
            pages = [memory.search(("a",), query="5 3", limit=size, offset=o) for o in range(0, 60, size)]
            assert [(hit.key, hit.score) for page in pages for hit in page] == everything

    @needs(Capability.VECTOR)
    def test_weak_hits_can_be_dropped_from_a_vector_search(self, opens: Opens) -> None:
        memory = opened(opens, min_score=0.9)
        fill(memory)
        assert memory.keys(("a",), query="1 0", mode="vector") == ["east"]
        assert memory.keys(("a",), query="1 0", mode="vector", offset=1) == []
        assert memory.search(("a",), query="0 -1", mode="vector") == []
        assert len(memory.search(("a",), query="1 0", mode="hybrid")) == len(POINTS)

    @needs(Capability.VECTOR)
    def test_another_tenant_moves_no_vectors_rank(self, opens: Opens) -> None:
        memory = opened(opens)
        fill(memory)
        modes = ("vector", "hybrid")
        before = [[(hit.key, hit.score) for hit in memory.search(("a",), query="2 1", mode=m)] for m in modes]
        memory.batch([PutItem(("b",), str(n), {"t": f"2 1 {n}"}) for n in range(300)])
        after = [[(hit.key, hit.score) for hit in memory.search(("a",), query="2 1", mode=m)] for m in modes]
        assert after == before

    @needs(Capability.VECTOR, Capability.TEXT)
    def test_text_search_stays_possible_beside_vectors(self, opens: Opens) -> None:
        memory = opened(opens)
        memory.put(("a",), "words", {"t": "giraffe 0 1"})
        memory.put(("a",), "other", {"t": "zebra 1 0"})
        (hit,) = memory.search(("a",), query="giraffe", mode="text", explain=True)
        assert (hit.key, hit.components) == ("words", {"text": hit.score, "vector": None})

    @needs(Capability.VECTOR, Capability.TEXT)
    def test_hybrid_search_fuses_words_and_vectors(self, opens: Opens) -> None:
        memory = opened(opens)
        memory.put(("a",), "both", {"t": "giraffe 1 0"})
        memory.put(("a",), "words", {"t": "giraffe -1 0"})
        memory.put(("a",), "near", {"t": "zebra 1 0"})
        memory.put(("a",), "neither", {"t": "zebra -1 0"})
        memory.put(("a",), "hidden", {"t": "giraffe 1 0"}, index=False)
        found = memory.search(("a",), query="giraffe", mode="hybrid", explain=True)
        # The query has no numbers, so its vector is (1, 1).
        assert [hit.key for hit in found[:2]] == ["both", "words"]
        assert {hit.key for hit in found} == {"both", "words", "near", "neither"}
        scores = [hit.score for hit in found if hit.score is not None]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= each <= 1 for each in scores)
        assert scores[0] == pytest.approx(1.0)
        parts = {hit.key: hit.components for hit in found}
        for key, components in parts.items():
            assert components is not None
            assert (components["text"] is not None) == (key in ("both", "words"))
            assert components["vector"] == pytest.approx((1 if key in ("both", "near") else -1) * 0.5**0.5)

    @needs(Capability.VECTOR, Capability.TEXT)
    def test_hybrid_search_without_a_matching_word_ranks_by_vectors(self, opens: Opens) -> None:
        memory = opened(opens)
        fill(memory)
        by_vector = memory.keys(("a",), query="okapi", mode="vector")
        assert memory.keys(("a",), query="okapi", mode="hybrid") == by_vector

    @needs(Capability.VECTOR, Capability.TEXT)
    def test_hybrid_search_filters_pages_and_sees_its_batch(self, opens: Opens) -> None:
        memory = opened(opens)
        memory.batch([PutItem(("a",), str(n), {"t": f"giraffe {n} 9", "n": n}) for n in range(30)])
        everything = memory.keys(("a",), query="giraffe 1 0", mode="hybrid", limit=50)
        assert sorted(everything, key=int) == [str(n) for n in range(30)]
        pages = [
            memory.keys(("a",), query="giraffe 1 0", mode="hybrid", limit=7, offset=o)
            for o in range(0, 35, 7)
        ]
        assert [key for page in pages for key in page] == everything
        low = memory.keys(("a",), query="giraffe 1 0", mode="hybrid", filter={"n": {"$lt": 3}})
        assert sorted(low) == ["0", "1", "2"]
        _, found = memory.batch(
            [
                PutItem(("b",), "new", {"t": "okapi 1 0"}),
                SearchItems(("b",), query="okapi 1 0", mode="hybrid"),
            ]
        )
        assert [hit.key for hit in found] == ["new"]

    @needs(Capability.VECTOR)
    def test_a_vector_search_sees_the_puts_before_it_in_its_batch(self, opens: Opens) -> None:
        memory = opened(opens)
        memory.put(("a",), "old", {"t": "0 1"})
        results = memory.batch(
            [
                PutItem(("a",), "new", {"t": "1 0"}),
                SearchItems(("a",), query="1 0", mode="vector"),
                PutItem(("a",), "new", {"t": "-1 0"}),
                SearchItems(("a",), query="1 0", mode="vector"),
            ]
        )
        assert [[hit.key for hit in result] for result in results[1::2]] == [["new", "old"], ["old", "new"]]

    @needs(Capability.VECTOR, Capability.TEXT)
    def test_the_mode_of_a_query_can_be_configured(self, opens: Opens) -> None:
        memory = opened(opens, mode="hybrid")
        memory.put(("a",), "words", {"t": "giraffe 0 1"})
        (hit,) = memory.search(("a",), query="giraffe", explain=True)
        assert hit.components is not None
        assert None not in hit.components.values()

    @needs(Capability.VECTOR)
    def test_vectors_without_a_text_index_refuse_words(self, opens: Opens) -> None:
        memory = opened(opens, text=False)
        memory.put(("a",), "k", {"t": "giraffe 1 0"})
        assert memory.keys(("a",), query="giraffe") == ["k"]
        for mode in ("text", "hybrid"):
            with pytest.raises(NotSupported) as caught:
                memory.search(("a",), query="giraffe", mode=mode)
            assert caught.value.field == "mode"

    @needs(Capability.VECTOR)
    def test_an_empty_query_is_none_for_vectors_either(self, opens: Opens) -> None:
        memory = opened(opens)
        fill(memory)
        for mode in ("auto", "vector", "hybrid"):
            assert [hit.score for hit in memory.search(("a",), query="", mode=mode)] == [None] * len(POINTS)

    @needs(Capability.VECTOR)
    def test_vectors_are_found_after_closing_if_the_store_is_durable(self, opens: Opens) -> None:
        memory = opened(opens)
        fill(memory)
        memory.delete(("a", "east"), "east")
        before = [(hit.key, hit.score) for hit in memory.search(("a",), query=QUERY)]
        memory.close()
        again = opened(opens)
        found = [(hit.key, hit.score) for hit in again.search(("a",), query=QUERY)]
        assert found == (before if Capability.DURABLE in opens.capabilities else [])

    @needs(Capability.VECTOR)
    def test_vectors_that_cannot_be_used_are_refused_and_nothing_is_put(self, opens: Opens) -> None:
        answers = [answer for answer, *_ in UNUSABLE for _ in range(2)]
        memory = opens(index={"embed": lambda _texts: answers.pop(0), "dims": 2})
        memory.put(("a",), "k", {"t": "word"}, index=False)
        before = snapshot(memory, "word")
        for answer, error, field in UNUSABLE:
            for call in (("put", ("a",), "k", {"t": "new"}), ("batch", [PutItem(("a",), "n", {"t": "new"})])):
                with pytest.raises(error) as caught:
                    memory.call(*call)
                assert caught.value.field == field, answer
        assert snapshot(memory, "word") == before

    @needs(Capability.VECTOR)
    def test_an_error_of_the_embedder_reaches_the_caller_and_nothing_is_put(self, opens: Opens) -> None:
        class Failing(Exception):
            """What this embedder raises."""

        def embed(_texts: object) -> list[list[float]]:
            raise Failing("out of quota")

        memory = opens(index={"embed": embed, "dims": 2})
        with pytest.raises(Failing, match="out of quota"):
            memory.put(("a",), "k", {"t": "word"})
        with pytest.raises(Failing):
            memory.search(("a",), query="word", mode="vector")
        assert memory.count(()) == 0
        memory.put(("a",), "k", {"t": "word"}, index=False)
        assert memory.count(()) == 1
