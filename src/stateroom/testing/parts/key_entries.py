"""What a listing of keys says of the items, and which it finds by a text."""

from __future__ import annotations

from typing import Any

from langgraph.store.base import PutOp

from stateroom.contract.items import Capability
from stateroom.model.item import KeyEntry
from stateroom.model.json_values import encode_value, json_spelling
from stateroom.stores.operations import DeleteItem, PutItem
from stateroom.testing.harness import Harness, Memory, Opens
from stateroom.testing.snapshot import spelled

__all__ = ["KeyEntriesSuite", "told"]

N = ("a", "b")

SAID = "2026-01-02T03:04:05.000006+00:00"
LATER = "2026-05-17T12:00:00Z"
TIMES = {"created_at": SAID, "modified_at": LATER}

FILES: dict[str, tuple[dict[str, Any], int, str | None]] = {
    "lines": ({"content": ["one", "zwö", ""], **TIMES}, 9, LATER),
    "no lines": ({"content": [], **TIMES}, 0, LATER),
    "text": ({"content": "zwö 😀\n", "encoding": "utf-8", **TIMES}, 10, LATER),
    "text alone": ({"content": "one"}, 3, None),
    "base64": ({"content": "iVBORw==", "encoding": "base64", **TIMES}, 4, LATER),
    "text by JavaScript": ({"content": "zwö", "mimeType": "text/plain", **TIMES}, 4, LATER),
    "bytes by JavaScript": (
        {"content": {"0": 137, "1": 80, "2": 78}, "mimeType": "image/png", **TIMES},
        3,
        LATER,
    ),
    "buffer by JavaScript": ({"content": {"type": "Buffer", "data": [137, 80]}, **TIMES}, 2, LATER),
    "others' members": ({"content": ["one"], "owner": {"n": 2**70}, "modified_at": ""}, 3, ""),
    "a time that is none": ({"content": ["one"], "modified_at": 5}, 3, None),
    "no time": ({"content": ["one"], "modified_at": None}, 3, None),
}
NO_FILES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "another member": {"text": "one", **TIMES},
    "null": {"content": None},
    "number": {"content": 5, **TIMES},
    "lines that are none": {"content": ["one", 2]},
    "no base64": {"content": "%", "encoding": "base64"},
    "text as base64": {"content": "zwö", "encoding": "base64"},
    "bytes that are none": {"content": {"0": 256}},
    "bytes that are missing": {"content": {"0": 1, "2": 3}},
    "a buffer of a number": {"content": {"type": "Buffer", "data": 5}},
}

TEXTS = {
    "quotes": 'say "hi", it\'s',
    "backslashes": "C:\\new \\u0041",
    "lines": "one\ntwo\ttabs\r\n",
    "controls": "a\x01b\x1fc\x7f",
    "accents": "café Straße",
    "decomposed": "cafe\u0301",
    "wide": "東京都 👩‍👩‍👧‍👦",
    "breaks": "a\u2028b\u0085c",
    "patterns": "100% _sure_ [a-z]* ?",
    "case": "Needle NEEDLE",
    "long": "x" * 20_000 + "needle",
    "empty": "",
}
PARTS = [
    *(
        '"',
        "\\",
        "\\u",
        "\n",
        "\t",
        "\r\n",
        "\x01",
        "\x1f",
        "\x7f",
        "é",
        "e\u0301",
        "fé",
        "ß",
        "ss",
        "東",
        "京都",
    ),
    *(
        "👩",
        "\u200d",
        "\u2028",
        "\x85",
        "%",
        "_",
        "0% _",
        "[a-z]",
        "*",
        "?",
        "'",
        "needle",
        "Needle",
        "eedle",
    ),
    *("NEEDLE", "one\ntwo", "nothing of it", "x" * 20_001, ""),
]


def told(entries: list[KeyEntry]) -> list[tuple[Any, ...]]:
    """Return all that entries say."""
    return [
        (one.key, one.is_prefix, one.revision, one.updated_at, one.size, one.modified_at, one.value)
        for one in entries
    ]


class KeyEntriesSuite(Harness):
    """An entry of a listing says what its item says, and of a file what can be told without reading it."""

    def test_what_is_rolled_up_says_nothing_more(self, memory: Memory) -> None:
        memory.put(N, "/d/a.md", {"content": ["one"], **TIMES})
        memory.put(N, "/d/", {"content": ["one"], **TIMES})
        assert told(memory.list_keys(N, prefix="/", delimiter="/", values=True)) == [
            ("/d/", True, None, None, None, None, None)
        ]

    def test_an_entry_says_what_its_item_says(self, memory: Memory) -> None:
        for key in ("k", "/k"):
            memory.put(N, key, {"n": 1})
            memory.put(N, key, {"n": 2})
        for entry in memory.list_keys(N):
            item = memory.read(N, entry.key)
            assert (entry.is_prefix, entry.revision) == (False, item.revision)
            assert entry.updated_at == item.updated_at
            assert entry.updated_at.utcoffset() == item.updated_at.utcoffset()

    def test_an_item_is_found_by_a_text_in_one_of_its_strings(self, memory: Memory) -> None:
        for key, text in TEXTS.items():
            memory.put(N, key, {"t": text})
        for part in [*PARTS, *TEXTS.values()]:
            found = memory.listed(N, containing=part)
            assert found == memory.listed(N, containing=part, values=True)
            assert {key for key, text in TEXTS.items() if part in text} <= {*found}, part[:50]
            # What JSON spells so elsewhere may be found as well, and nothing else is.
            spelling = json_spelling(part)
            assert found == sorted(k for k, t in TEXTS.items() if spelling in encode_value({"t": t})), part[
                :50
            ]

    def test_a_text_is_found_however_deep_it_is(self, memory: Memory) -> None:
        memory.put(N, "list", {"a": [1, ["the needle"]]})
        memory.put(N, "object", {"a": {"b": {"c": "needles"}}})
        memory.put(N, "big", {"n": [2**70, 12345], "t": 'a "needle" of\ngröße'})
        memory.put(N, "none", {"t": "need", "u": "le", "n": 1235})
        memory.put((*N, "c"), "other", {"t": "needle 12345"})
        assert memory.listed(N, containing="needle") == ["big", "list", "object"]
        assert memory.listed(N, containing='"needle" of\ngrö') == ["big"]
        assert memory.listed(N, containing="12345") == ["big"]
        assert memory.listed(N, containing="") == ["big", "list", "none", "object"]

    def test_a_text_is_looked_for_beside_everything_else(self, memory: Memory) -> None:
        for path in ("/a/x.md", "/a/y.md", "/b/x.md", "/b/x.txt", "/c/x.md", "/d.md"):
            memory.put(N, path, {"content": ["needle" if "x" in path or "d" in path[:2] else "hay"]})
        memory.put(N, "/c/x.md", {"content": ["hay"]})
        assert memory.listed(N, containing="needle", suffix=".md") == ["/a/x.md", "/b/x.md", "/d.md"]
        assert memory.listed(N, containing="needle", prefix="/b/") == ["/b/x.md", "/b/x.txt"]
        assert memory.listed(N, containing="needle", prefix="/", delimiter="/") == ["/a/", "/b/", "/d.md"]
        assert memory.listed(N, containing="needle", after="/a/x.md", limit=1) == ["/b/x.md"]

    def test_values_come_where_they_are_asked_for(self, memory: Memory) -> None:
        values: dict[str, Any] = {
            "/f": {"content": ["é", ""], "n": 2**70},
            "k": {"z": [1, 1.5], "a": {"é": None}},
        }
        for key, value in values.items():
            memory.put(N, key, value)
        assert [entry.value for entry in memory.list_keys(N)] == [None, None]
        for more in ({}, {"containing": ""}, {"delimiter": "x"}):
            entries = memory.list_keys(N, values=True, **more)
            for entry in entries:
                assert spelled(entry.value, memory.capabilities) == spelled(
                    values[entry.key], memory.capabilities
                )
                assert entry.value is not None
                entry.value.clear()
            assert [entry.value for entry in entries] == [*values.values()]

    def test_a_file_has_a_size_and_the_time_that_it_says(self, memory: Memory) -> None:
        for name, (value, _, _) in FILES.items():
            memory.put(N, f"/{name}", value)
            memory.put(N, name, value)
        for name, value in NO_FILES.items():
            memory.put(N, f"/{name}", value)
        for values in (False, True):
            entries = {
                entry.key: (entry.size, entry.modified_at) for entry in memory.list_keys(N, values=values)
            }
            for name, (_, size, modified_at) in FILES.items():
                assert entries[f"/{name}"] == (size, modified_at), name
                assert entries[name] == (None, None), name
            for name in NO_FILES:
                assert entries[f"/{name}"] == (None, None), name

    def test_the_size_is_that_of_the_last_put_however_it_came(self, memory: Memory) -> None:
        def size() -> int | None:
            (entry,) = memory.list_keys(N)
            return entry.size

        memory.put(N, "/f", {"content": ["one"]})
        assert size() == 3
        memory.put_item(N, "/f", {"content": ["eleven"]})
        assert size() == 6
        memory.batch([PutOp(N, "/f", {"content": ["four"]})])
        assert size() == 4
        memory.put(N, "/f", {"no": "file"})
        assert size() is None
        memory.batch([PutItem(N, "/f", {"content": ["a"]}), PutItem(N, "/f", {"content": ["ab"]})])
        assert size() == 2
        memory.batch([DeleteItem(N, "/f"), PutItem(N, "/f", {"t": "x"})])
        assert size() is None

    def test_a_listing_is_the_same_after_closing_if_the_store_is_durable(self, opens: Opens) -> None:
        memory = opens()
        for name, (value, _, _) in FILES.items():
            memory.put(N, f"/{name}", value)
        before = told(memory.list_keys(N, values=True))
        memory.close()
        again = told(opens().list_keys(N, values=True))
        assert again == (before if Capability.DURABLE in opens.capabilities else [])
