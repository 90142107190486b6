"""Which parts of an item a query finds, put by put."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.contract.items import Capability
from stateroom.stores.operations import PutItem
from stateroom.testing.embedders import Coordinates
from stateroom.testing.harness import Harness, Memory, Opens
from stateroom.testing.needs import needs

__all__ = ["IndexingSuite"]

DEEP = {
    "title": "giraffe",
    "body": {"text": "zebra", "notes": ["okapi", {"by": "lemur"}]},
    "tags": ["tapir", "gnu"],
    "a.b": "dotted",
    "size": 1234,
}

PATHS: list[tuple[list[str], set[str]]] = [
    (["title"], {"giraffe"}),
    (["body"], {"zebra", "okapi", "lemur"}),
    (["body.text"], {"zebra"}),
    (["body.notes"], {"okapi", "lemur"}),
    (["body.notes[0]"], {"okapi"}),
    (["body.notes[-1]"], {"lemur"}),
    (["body.notes[1].by"], {"lemur"}),
    (["body.notes[*].by"], {"lemur"}),
    (["tags[*]"], {"tapir", "gnu"}),
    (["tags[0]", "title"], {"tapir", "giraffe"}),
    (["*"], {"giraffe", "zebra", "okapi", "lemur", "tapir", "gnu", "dotted", "1234"}),
    (["$"], {"giraffe", "zebra", "okapi", "lemur", "tapir", "gnu", "dotted", "1234"}),
    (["size"], {"1234"}),
    (["{title,body.text}"], {"giraffe", "zebra"}),
    (["absent", "title.deeper", "tags[9]", "tags.x"], set()),
    (["a.b"], set()),
    ([], set()),
]
WORDS = {"giraffe", "zebra", "okapi", "lemur", "tapir", "gnu", "dotted", "1234"}


def found_by(memory: Memory, words: set[str]) -> set[str]:
    """Return those of some words by which a text search finds the only item."""
    return {word for word in words if memory.search(("a",), query=word, mode="text")}


class IndexingSuite(Harness):
    """``index`` decides what a query sees; everything else sees the item anyway."""

    @needs(Capability.TEXT)
    def test_unless_told_otherwise_every_string_and_number_is_found(self, memory: Memory) -> None:
        memory.put(("a",), "k", {**DEEP, "yes": True, "none": None})
        assert found_by(memory, WORDS) == WORDS

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_keys_booleans_and_nulls_are_not_found(self, memory: Memory) -> None:
        memory.put(("a",), "thekey", {"thename": {"inner": "word"}, "yes": True, "none": None})
        words = {"thekey", "thename", "inner", "yes", "true", "none", "null", "False"}
        assert found_by(memory, words) == set()

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_a_put_may_name_the_paths_that_are_found(self, memory: Memory) -> None:
        for paths, words in PATHS:
            memory.put(("a",), "k", DEEP, index=paths)
            assert found_by(memory, WORDS) == words, paths
        memory.put(("a",), "k", DEEP)
        assert found_by(memory, WORDS) == WORDS
        memory.put_item(("a",), "k", DEEP, ["title"])
        assert found_by(memory, WORDS) == {"giraffe"}

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_the_store_may_be_told_which_paths_are_found(self, opens: Opens) -> None:
        memory = opens(index={"fields": ["title", "body.notes[*]"]})
        memory.put(("a",), "k", DEEP)
        assert found_by(memory, WORDS) == {"giraffe", "okapi", "lemur"}
        memory.put(("a",), "k", DEEP, index=["tags[1]"])
        assert found_by(memory, WORDS) == {"gnu"}

    def test_an_item_that_is_not_indexed_is_there_for_everything_but_queries(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"t": "giraffe", "n": 1}, index=False)
        assert memory.read(("a",), "k").value == {"t": "giraffe", "n": 1}
        assert memory.keys(("a",)) == memory.keys(("a",), filter={"n": 1}) == ["k"]
        assert memory.count(("a",)) == 1
        assert memory.list_namespaces() == [("a",)]
        if Capability.TEXT in memory.capabilities:
            assert memory.search(("a",), query="giraffe", mode="text") == []

    @needs(Capability.TEXT)
    def test_an_update_that_is_not_indexed_removes_the_old_text(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"t": "giraffe"})
        memory.put(("a",), "other", {"t": "zebra"})
        assert memory.keys(("a",), query="giraffe") == ["k"]
        memory.put(("a",), "k", {"t": "giraffe"}, index=False)
        assert memory.search(("a",), query="giraffe") == []
        memory.put(("a",), "k", {"t": "giraffe"})
        assert memory.keys(("a",), query="giraffe") == ["k"]

    @needs(Capability.TEXT, Capability.ANALYSIS)
    def test_an_item_that_is_not_indexed_moves_no_score(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"t": "giraffe and zebra"})
        (alone,) = memory.search(("a",), query="giraffe")
        memory.put(("a",), "hidden", {"t": "giraffe giraffe"}, index=False)
        assert [(hit.key, hit.score) for hit in memory.search(("a",), query="giraffe")] == [
            ("k", alone.score)
        ]

    @needs(Capability.TEXT)
    def test_a_new_text_replaces_the_old_one(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"t": "giraffe"})
        memory.put(("a",), "k", {"t": "zebra"})
        assert found_by(memory, {"giraffe", "zebra"}) == {"zebra"}
        memory.delete(("a",), "k")
        assert found_by(memory, {"giraffe", "zebra"}) == set()
        memory.put(("a",), "k", {"t": "okapi"})
        assert found_by(memory, {"giraffe", "zebra", "okapi"}) == {"okapi"}

    @needs(Capability.VECTOR)
    def test_the_texts_of_a_batch_are_embedded_in_one_call(self, opens: Opens) -> None:
        embed = Coordinates()
        memory = opens(index={"embed": embed, "dims": 2, "fields": ["t", "u"]})
        values: list[dict[str, Any]] = [{"t": "1 0", "u": "2 0"}, {"t": "0 1"}, {"t": "1 0"}, {"x": "7 7"}]
        memory.batch([PutItem(("a",), str(n), value) for n, value in enumerate(values)])
        assert embed.documents == [["1 0", "2 0", "0 1"]]
        assert len(memory.search(("a",), query="1 0", mode="vector")) == 3

    @needs(Capability.VECTOR)
    def test_nothing_is_embedded_that_nobody_asked_for(self, opens: Opens) -> None:
        embed = Coordinates()
        memory = opens(index={"embed": embed, "dims": 2, "fields": ["t"]})
        memory.put(("a",), "hidden", {"t": "1 0"}, index=False)
        memory.put(("a",), "none", {"other": "1 0"})
        memory.put(("a",), "empty", {"t": None})
        memory.get(("a",), "hidden")
        memory.search(("a",), filter={"t": "1 0"})
        memory.search(("a",), query="1 0", mode="text")
        memory.delete(("a",), "none")
        assert (embed.documents, embed.queries) == ([], [])

    @needs(Capability.VECTOR)
    def test_a_query_is_embedded_as_a_query(self, opens: Opens) -> None:
        embed = Coordinates()
        memory = opens(index={"embed": embed, "dims": 2, "fields": ["t"]})
        memory.put(("a",), "k", {"t": "1 0"})
        memory.search(("a",), query="0 1", mode="vector")
        assert (embed.documents, embed.queries) == ([["1 0"]], ["0 1"])

    @needs(Capability.VECTOR)
    def test_text_that_stayed_the_same_is_not_embedded_again(self, opens: Opens) -> None:
        embed = Coordinates()
        index = {"embed": embed, "dims": 2, "fields": ["t", "u"]}
        memory = opens(index=index)
        memory.put(("a",), "k", {"t": "1 0", "u": "0 1", "n": 1})
        memory.close()
        # Opened again, a durable store knows the vectors by what it has stored alone.
        memory = opens(index=index) if Capability.DURABLE in opens.capabilities else memory
        memory.put(("a",), "k", {"t": "1 0", "u": "0 1", "n": 2})
        assert embed.documents == [["1 0", "0 1"]]
        memory.put(("a",), "k", {"t": "1 0", "u": "5 5", "n": 2})
        assert embed.documents == [["1 0", "0 1"], ["5 5"]]
        (hit,) = memory.search(("a",), query="5 5", mode="vector")
        assert hit.score == pytest.approx(1.0)
        memory.put(("a",), "k", {"t": "-1 0"})
        assert embed.documents[2:] == [["-1 0"]]
        (hit,) = memory.search(("a",), query="5 5", mode="vector")
        assert hit.score == pytest.approx(-(0.5**0.5))

    @needs(Capability.VECTOR)
    def test_an_update_that_is_not_indexed_removes_the_old_vectors(self, opens: Opens) -> None:
        embed = Coordinates()
        memory = opens(index={"embed": embed, "dims": 2, "fields": ["t"]})
        memory.put(("a",), "k", {"t": "1 0"})
        memory.put(("a",), "other", {"t": "0 1"})
        assert memory.keys(("a",), query="1 0", mode="vector") == ["k", "other"]
        memory.put(("a",), "k", {"t": "1 0"}, index=False)
        assert memory.keys(("a",), query="1 0", mode="vector") == ["other"]
        assert memory.keys(("a",), query="1 0", mode="hybrid") == ["other"]
        memory.put(("a",), "k", {"t": "1 0"})
        assert memory.keys(("a",), query="1 0", mode="vector") == ["k", "other"]
        memory.delete(("a",), "k")
        assert memory.keys(("a",), query="1 0", mode="vector") == ["other"]

    @needs(Capability.VECTOR)
    def test_a_put_may_name_the_paths_that_are_embedded(self, opens: Opens) -> None:
        embed = Coordinates()
        memory = opens(index={"embed": embed, "dims": 2, "fields": ["t"]})
        memory.put(("a",), "k", {"t": "1 0", "parts": [{"u": "0 1"}, {"u": "0 -1"}]}, index=["parts[*].u"])
        assert embed.documents == [["0 1", "0 -1"]]
        (hit,) = memory.search(("a",), query="1 0", mode="vector")
        assert hit.score == pytest.approx(0.0)
        for query in ("0 1", "0 -1"):
            # The best of an item's vectors counts.
            assert memory.search(("a",), query=query, mode="vector")[0].score == pytest.approx(1.0)

    @needs(Capability.VECTOR)
    def test_a_refused_put_embeds_nothing(self, opens: Opens) -> None:
        embed = Coordinates()
        memory = opens(index={"embed": embed, "dims": 2})
        good, bad = PutItem(("a",), "k", {"t": "1 0"}), PutItem(("a",), "bad", {"t": b"x"})
        with pytest.raises(ValueError, match="value"):
            memory.batch([good, bad])
        assert embed.documents == []
        assert memory.count(()) == 0
