"""Users' cases about finding: prefixes, filters, listings of namespaces, and meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from stateroom.contract.items import Capability
from stateroom.errors import InvalidFilter, InvalidNamespace, Misconfigured
from stateroom.testing.embedders import Coordinates
from stateroom.testing.harness import Harness, Memory, Opens
from stateroom.testing.needs import needs

__all__ = ["FindingCases"]

N = ("a", "b")

NEIGHBOURS = {
    "k": ("user", "1"),
    "k2": ("user", "12"),
    "k3": ("user_1",),
    "k4": ("userX1",),
    "k5": ("u%",),
    "k6": ("user", "1", "deep"),
    "k7": ("user\\1",),
    "k8": ("USER", "1"),
}
SEARCHED = {
    ("user", "1"): {"k", "k6"},
    ("user",): {"k", "k2", "k6"},
    ("user_1",): {"k3"},
    ("u%",): {"k5"},
    ("user\\1",): {"k7"},
    ("use",): set(),
    ("user", "*"): set(),
    ("*",): set(),
    (): set(NEIGHBOURS),
}
NUMBERS = {"2": 2, "9": 9, "10": 10, "100": 100, "-5": -5, "1.5": 1.5, "1e3": 1e3, "x": "x", "text": "50"}
BAD_NAMESPACES: list[tuple[Any, str]] = [
    ((None, "f"), "namespace[0]"),
    (("u", 5), "namespace[1]"),
    (("u", ""), "namespace[1]"),
    (("u", ["v"]), "namespace[1]"),
    ((), "namespace"),
]


class Separate:
    """An embedder whose queries and documents live in spaces of their own."""

    async def aembed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Place a document by its first letter, alpha before beta."""
        return self.embed_documents(texts)

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Place a document by its first letter, alpha before beta."""
        return [[1.0, 0.0] if text.startswith("alpha") else [0.0, 1.0] for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        """Place a query by its last word, where documents would not put it."""
        return self.embed_query(text)

    def embed_query(self, text: str) -> list[float]:
        """Place a query by its last word, where documents would not put it."""
        return [1.0, 0.0] if text.endswith("alpha") else [0.0, 1.0]


def _lengths(texts: Sequence[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


async def _lengths_later(texts: Sequence[str]) -> list[list[float]]:
    await asyncio.sleep(0)
    return _lengths(texts)


class FindingCases(Harness):
    """A search finds what it was asked for: nothing of a neighbour's, nothing else, nothing less."""

    @pytest.mark.parametrize("prefix", SEARCHED)
    def test_A02_a_prefix_matches_whole_labels_only(self, memory: Memory, prefix: tuple[str, ...]) -> None:
        for key, namespace in NEIGHBOURS.items():
            memory.put(namespace, key, {"kind": "note", "text": "word"})
        found = SEARCHED[prefix]
        assert set(memory.keys(prefix, limit=100)) == found
        assert set(memory.keys(prefix, filter={"kind": "note"}, limit=100)) == found
        assert set(memory.keys(prefix, filter={"kind": {"$gte": "note"}}, limit=100)) == found
        assert memory.count(prefix) == len(found)
        assert memory.listed(prefix) == [key for key in NEIGHBOURS if NEIGHBOURS[key] == prefix]

    @needs(Capability.TEXT)
    @pytest.mark.parametrize("prefix", SEARCHED)
    def test_A02_a_query_stays_under_its_prefix(self, memory: Memory, prefix: tuple[str, ...]) -> None:
        for key, namespace in NEIGHBOURS.items():
            memory.put(namespace, key, {"text": "word"})
        assert set(memory.keys(prefix, query="word", mode="text", limit=100)) == SEARCHED[prefix]

    @needs(Capability.VECTOR)
    @pytest.mark.parametrize("prefix", SEARCHED)
    def test_A02_a_semantic_query_stays_under_its_prefix(self, opens: Opens, prefix: tuple[str, ...]) -> None:
        memory = opens(index={"embed": Coordinates(), "dims": 2, "fields": ["at"]})
        for key, namespace in NEIGHBOURS.items():
            memory.put(namespace, key, {"at": "1 2"})
        assert set(memory.keys(prefix, query="1 2", limit=100)) == SEARCHED[prefix]

    def test_A02_listings_of_namespaces_match_whole_labels_too(self, memory: Memory) -> None:
        for key, namespace in NEIGHBOURS.items():
            memory.put(namespace, key, {})
        assert memory.list_namespaces(suffix=("1",)) == [("USER", "1"), ("user", "1")]
        assert memory.list_namespaces(prefix=("user", "1")) == [("user", "1"), ("user", "1", "deep")]
        assert memory.list_namespaces(prefix=("user_1",)) == [("user_1",)]
        assert memory.list_namespaces(prefix=("u%",)) == [("u%",)]
        assert memory.list_namespaces(suffix=("%",)) == []
        assert memory.list_namespaces(prefix=("user", "*", "deep")) == [("user", "1", "deep")]
        assert memory.list_namespaces(prefix=("*", "*", "*")) == [("user", "1", "deep")]
        assert memory.list_namespaces(suffix=("user", "*")) == [("user", "1"), ("user", "12")]

    @pytest.mark.parametrize("index_keys", [(), ("n",)], ids=["plain", "declared"])
    @pytest.mark.parametrize(
        ("condition", "found"),
        [
            ({"$gte": 10}, {"10", "100", "1e3"}),
            ({"$lt": 0}, {"-5"}),
            ({"$gt": 1, "$lte": 9}, {"2", "9", "1.5"}),
            ({"$gt": 1}, {"2", "9", "10", "100", "1.5", "1e3"}),
            ({"$lte": 1.5}, {"1.5", "-5"}),
            ({"$gte": "5"}, {"x", "text"}),
            ({"$gt": 2**70}, set()),
            ({"$gte": -(2**70)}, set(NUMBERS) - {"x", "text"}),
        ],
    )
    def test_A09_numbers_compare_as_numbers(
        self, opens: Opens, index_keys: tuple[str, ...], condition: dict[str, Any], found: set[str]
    ) -> None:
        memory = opens(index_keys=index_keys)
        for key, number in NUMBERS.items():
            memory.put(N, key, {"n": number})
        assert set(memory.keys(N, filter={"n": condition})) == found
        assert memory.count(N, filter={"n": condition}) == len(found)

    @pytest.mark.parametrize(
        ("filter_", "found"),
        [
            ({"u": {"z": 1, "role": "admin"}}, ["a"]),
            ({"t": ["x", "y"]}, ["a"]),
            ({"t": {"$eq": ["x", "y"]}}, ["a"]),
            ({"t": {"$ne": ["x", "y"]}}, ["b"]),
            ({"u": {"$eq": {"role": "user"}}}, ["b"]),
            ({"u": {"role": "user"}}, ["b"]),
            ({"u": {"role": "admin"}}, []),
            ({"u": {"$ne": {"role": "user"}}}, ["a"]),
            ({"t": []}, ["b"]),
            ({"t": ["y", "x"]}, []),
            ({"t": {"$in": [[], ["z"]]}}, ["b"]),
        ],
    )
    def test_A24_objects_and_lists_are_values_to_compare_with(
        self, memory: Memory, filter_: dict[str, Any], found: list[str]
    ) -> None:
        memory.put(N, "a", {"u": {"role": "admin", "z": 1}, "t": ["x", "y"]})
        memory.put(N, "b", {"u": {"role": "user"}, "t": []})
        assert memory.keys(N, filter=filter_) == found

    def test_A24_an_object_that_mixes_operators_and_keys_is_refused(self, memory: Memory) -> None:
        with pytest.raises(InvalidFilter) as caught:
            memory.search(N, filter={"u": {"$eq": 1, "role": "admin"}})
        assert isinstance(caught.value, ValueError)
        assert caught.value.field == "filter.u"

    @pytest.mark.parametrize(
        ("filter_", "found"),
        [
            ({"$and": [{"n": {"$gt": 2}}, {"$or": [{"t": "x"}, {"t": "y"}]}]}, ["b", "a"]),
            ({"$or": [{"n": 3}, {"n": 5}]}, ["c", "a"]),
            ({"$not": {"n": 3}}, ["c", "b"]),
            ({"n": {"$in": [3]}}, ["a"]),
            ({"n": {"$nin": [3]}}, ["c", "b"]),
            ({"t": {"$exists": False}}, ["c"]),
            ({"n": {"$gte": 3}, "$or": [{"t": "x"}, {"t": "z"}]}, ["a"]),
        ],
    )
    def test_A25_combinators_combine(self, memory: Memory, filter_: dict[str, Any], found: list[str]) -> None:
        for key, value in (("a", {"n": 3, "t": "x"}), ("b", {"n": 4, "t": "y"}), ("c", {"n": 5})):
            memory.put(N, key, value)
        assert memory.keys(N, filter=filter_) == found

    @pytest.mark.parametrize("filter_", [{"$foo": 1}, {"n": {"$foo": 1}}, {"$or": [{"n": {"$regex": "x"}}]}])
    def test_A25_an_unknown_operator_is_refused_and_finds_nothing_silently(
        self, memory: Memory, filter_: dict[str, Any]
    ) -> None:
        memory.put(N, "a", {"n": 3, "$foo": 1})
        for refused in (
            lambda: memory.search(N, filter=filter_),
            lambda: memory.count(N, filter=filter_),
            lambda: memory.batch([SearchOp(N, filter_)]),
        ):
            with pytest.raises(InvalidFilter):
                refused()

    @pytest.mark.parametrize("index_keys", [(), ("age",)], ids=["plain", "declared"])
    def test_A26_a_range_passes_over_what_has_no_order_with_it(
        self, opens: Opens, index_keys: tuple[str, ...]
    ) -> None:
        memory = opens(index_keys=index_keys)
        ages = {"a": 30, "c": "unknown", "d": None, "e": True, "f": [30], "g": {"years": 30}}
        for key, age in ages.items():
            memory.put(N, key, {"age": age})
        memory.put(N, "b", {})
        assert memory.keys(N, filter={"age": {"$gt": 25}}) == ["a"]
        assert memory.keys(N, filter={"age": {"$lt": 35}}) == ["a"]
        assert memory.keys(N, filter={"age": {"$gte": "a"}}) == ["c"]
        assert memory.count(N, filter={"age": {"$gte": 0}}) == 1

    def test_A28_reading_and_deleting_leave_no_namespace(self, memory: Memory) -> None:
        assert memory.get(("ghost",), "k") is None
        memory.put(("r",), "k", {})
        memory.delete(("r",), "k")
        memory.delete(("never",), "k")
        assert memory.search(("x",)) == []
        assert memory.count(("y",)) == 0
        memory.batch([GetOp(("z",), "k"), PutOp(("deleted",), "k", None), SearchOp(("w",))])
        assert memory.list_namespaces() == []

    @pytest.mark.parametrize(("namespace", "field"), BAD_NAMESPACES)
    def test_A29_a_label_that_is_no_text_is_refused_by_position_everywhere(
        self, memory: Memory, namespace: Any, field: str
    ) -> None:
        memory.put(("good",), "k", {})
        puts: list[Callable[[], Any]] = [
            lambda: memory.put(namespace, "k", {}),
            lambda: memory.put_item(namespace, "k", {}),
            lambda: memory.batch([PutOp(("good",), "other", {}), PutOp(namespace, "k", {})]),
        ]
        reads: list[Callable[[], Any]] = [
            lambda: memory.get(namespace, "k"),
            lambda: memory.delete(namespace, "k"),
            lambda: memory.search(namespace),
            lambda: memory.count(namespace),
            lambda: memory.batch([GetOp(namespace, "k")]),
            lambda: memory.batch([ListNamespacesOp((MatchCondition("prefix", namespace),))]),
        ]
        # No item can be at the empty namespace, but everything is below it.
        for refused in puts if namespace == () else [*puts, *reads]:
            with pytest.raises(InvalidNamespace) as caught:
                refused()
            assert isinstance(caught.value, ValueError)
            assert (caught.value.field or "").endswith(field.removeprefix("namespace"))
        assert memory.list_namespaces() == [("good",)]
        assert memory.keys(()) == ["k"]

    @pytest.mark.parametrize("namespace", [("a.b",), ("a", "b.c"), ("langgraph", "x")])
    def test_A30_what_put_refuses_for_its_name_batch_stores_without_a_collision(
        self, memory: Memory, namespace: tuple[str, ...]
    ) -> None:
        split = tuple(".".join(namespace).split("."))
        with pytest.raises(InvalidNamespace):
            memory.put(namespace, "k", {})
        assert memory.list_namespaces() == []
        memory.batch([PutOp(namespace, "k", {"n": 1})])
        assert memory.read(namespace, "k").value == {"n": 1}
        if split != namespace:
            assert memory.get(split, "k") is None
            assert memory.search(split) == []
        assert memory.list_namespaces() == [namespace]
        memory.delete(namespace, "k")
        assert memory.list_namespaces() == []

    def test_A30_separators_of_other_stores_are_ordinary_text(self, memory: Memory) -> None:
        odd = ("a:b", "c/d", "e|f", "g\x1fh", "i\\j")
        memory.put(odd, "k", {"n": 1})
        memory.put(("a", "b", "c"), "k", {"n": 2})
        assert memory.read(odd, "k").value == {"n": 1}
        assert memory.list_namespaces() == [("a", "b", "c"), odd]
        assert memory.keys(("a:b",)) == ["k"]
        assert memory.search(("a:b", "c")) == []

    @needs(Capability.VECTOR)
    @pytest.mark.parametrize("fields", [["text"], ["$"]])
    def test_A39_the_embedder_sees_the_text_as_it_was_written(self, opens: Opens, fields: list[str]) -> None:
        embedder = Coordinates()
        memory = opens(index={"embed": embedder, "dims": 2, "fields": fields})
        written = ["这是中文", "Привет 😀", "中\u2028文", "यह"]
        for number, text in enumerate(written):
            memory.put(N, str(number), {"text": text})
            memory.search(N, query=text)
        seen = [text for call in embedder.documents for text in call]
        assert len(seen) == len(written)
        assert all(text in document for text, document in zip(written, seen, strict=True))
        assert "\\u" not in "".join(seen)
        assert embedder.queries == written

    @needs(Capability.VECTOR)
    def test_A44_queries_are_embedded_as_queries(self, opens: Opens) -> None:
        memory = opens(index={"embed": Separate(), "dims": 2, "fields": ["text"]})
        memory.put(N, "beta", {"text": "beta"})
        memory.put(N, "alpha", {"text": "alpha"})
        assert memory.keys(N, query="find alpha") == ["alpha", "beta"]
        assert memory.keys(N, query="find beta") == ["beta", "alpha"]

    @needs(Capability.VECTOR)
    @pytest.mark.parametrize("embed", [_lengths, _lengths_later])
    def test_A44_a_function_of_either_kind_embeds(self, opens: Opens, embed: Callable[..., Any]) -> None:
        memory = opens(index={"embed": embed, "dims": 2, "fields": ["text"]})
        memory.put(N, "short", {"text": "x"})
        memory.put(N, "long", {"text": "x" * 50})
        assert memory.keys(N, query="y" * 50) == ["long", "short"]

    @needs(Capability.VECTOR)
    def test_A44_a_wrong_number_of_dimensions_is_named_before_anything_is_stored(self, opens: Opens) -> None:
        memory = opens(index={"embed": Coordinates(4), "dims": 8})
        with pytest.raises(Misconfigured, match=r"\b8\b.*\b4\b") as caught:
            memory.put(N, "k", {"text": "1 2 3 4"})
        assert caught.value.field == "index.dims"
        assert memory.get(N, "k") is None
        assert memory.list_namespaces() == []

    @needs(Capability.VECTOR)
    def test_A44_dimensions_that_the_embedder_tells_are_checked_at_the_start(self, opens: Opens) -> None:
        embedder = Coordinates(4)
        embedder.dims = 4  # type: ignore[attr-defined]  # what many LangChain embedders have
        with pytest.raises(Misconfigured, match=r"\b8\b.*\b4\b"):
            opens(index={"embed": embedder, "dims": 8})

    @needs(Capability.VECTOR)
    def test_A44_other_dimensions_than_the_stored_ones_are_refused_at_the_opening(self, opens: Opens) -> None:
        first = opens(index={"embed": Coordinates(8), "dims": 8})
        first.put(N, "k", {"text": "1 2 3 4 5 6 7 8"})
        first.close()
        again = {"embed": Coordinates(4), "dims": 4}
        if Capability.DURABLE not in opens.capabilities:
            assert opens(index=again).search(()) == []
            return
        with pytest.raises(Misconfigured, match=r"\b4\b.*\b8\b"):
            opens(index=again).call("setup")
