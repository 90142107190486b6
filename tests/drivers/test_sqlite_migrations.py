"""SQLite files of earlier releases are brought up to date when they are opened, wholly or not at all."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateroom import ManualClock, PutItem, SqliteStore
from stateroom.drivers.sqlite import migrations
from stateroom.drivers.sqlite.migrations import versions
from stateroom.model.file import Stat, stat_of
from stateroom.model.json_values import encode_value

FILES = ("assistant", "filesystem")
AT = "2026-01-02T03:04:05+00:00"

VALUES: dict[str, dict[str, Any]] = {
    "lines": {"content": ["one", "two", ""], "created_at": AT, "modified_at": AT},
    "no line": {"content": []},
    "an empty line": {"content": [""]},
    "quotes and escapes": {"content": ['"a\\b"', "tab\t", "\x01", "\\u0041", "it's"]},
    "lines of any language": {"content": ["é", "東京", "😀", "\uffff"]},
    "text": {"content": "één\n", "encoding": "utf-8", "modified_at": AT},
    "text of JavaScript": {"content": "één\n", "mimeType": "text/plain"},
    "no text": {"content": ""},
    "base64": {"content": "aGVsbG8=", "encoding": "base64"},
    "no base64": {"content": "aGVsbG8", "encoding": "base64"},
    "base64 with a line break": {"content": "aGVs\nbG8=", "encoding": "base64"},
    "empty base64": {"content": "", "encoding": "base64"},
    "numbered bytes": {"content": {"0": 137, "1": 80, "2": 0}, "mimeType": "image/png"},
    "numbered bytes in disorder": {"content": {"1": 80, "0": 137}},
    "bytes with a gap": {"content": {"0": 137, "2": 80}},
    "bytes that are none": {"content": {"0": 256}},
    "a buffer": {"content": {"type": "Buffer", "data": [1, 2, 3]}, "mimeType": "image/png"},
    "an empty buffer": {"content": {"type": "Buffer", "data": []}},
    "base64 of no letters": {"content": "é", "encoding": "base64"},
    "a buffer of a number": {"content": {"type": "Buffer", "data": 5}},
    "a buffer of a huge number": {"content": {"type": "Buffer", "data": 2**70}},
    "a buffer of flags": {"content": {"type": "Buffer", "data": [True]}},
    "a buffer of text": {"content": {"type": "Buffer", "data": "abc"}},
    "lines that are none": {"content": ["a", 1]},
    "null": {"content": None},
    "nothing": {"text": "a note"},
    "a time that is none": {"content": ["a"], "modified_at": 1_800_000_000},
    "a null time": {"content": ["a"], "modified_at": None},
    "a time of any text": {"content": ["a"], "modified_at": "gestern, 'spät'"},
    "a long number": {"content": ["a"], "modified_at": AT, "n": 10**30},
    "a long number for a time": {"content": ["a"], "modified_at": 10**30},
}


def downgrade(path: Path) -> None:
    """Make a file what the first release has left behind."""
    resources = re.findall(r"create table (\w+)", versions()[3])
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("".join(f"drop table {name};" for name in resources))
        connection.executescript(
            "drop index stateroom_item_path;"
            "alter table stateroom_item drop column file_size;"
            "alter table stateroom_item drop column file_modified_at;"
            "delete from stateroom_migration where version > 1;"
        )


def schema(path: Path) -> dict[str, list[str]]:
    """Return the columns of each of our tables and indexes."""
    with closing(sqlite3.connect(path)) as connection:
        names = [
            name
            for (name,) in connection.execute(
                "select name from sqlite_master where name like 'stateroom%' and type in ('table', 'index')"
            )
        ]
        return {
            name: [row[1] for row in connection.execute(f"pragma table_info('{name}')")]
            + [row[2] for row in connection.execute(f"pragma index_info('{name}')")]
            for name in names
        }


def stats(store: SqliteStore) -> dict[str, Stat | None]:
    return {
        each.key: None if each.size is None else Stat(each.size, each.modified_at)
        for each in store.list_keys(FILES)
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def test_what_is_shipped_is_numbered_from_one_without_gaps() -> None:
    assert sorted(versions()) == [*range(1, len(versions()) + 1)]


def test_a_downgraded_file_is_what_the_first_release_made(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So the tests below begin where they say.
    SqliteStore(path).setup()
    downgrade(path)
    first = versions()[1]
    monkeypatch.setattr(migrations, "versions", lambda: {1: first})
    SqliteStore(tmp_path / "first.db").setup()
    assert schema(path) == schema(tmp_path / "first.db")


def test_files_of_every_form_are_known_as_if_they_had_been_put_now(path: Path) -> None:
    puts = [PutItem(FILES, f"/{name}", value) for name, value in VALUES.items()]
    others = [PutItem(FILES, key, VALUES["lines"]) for key in ("lines", ".", "0", "", "é/")]
    with SqliteStore(path) as store:
        store.batch(puts + others)
        expected = stats(store)
        before = store.search(FILES, limit=100)
    downgrade(path)
    with SqliteStore(path) as store:
        assert stats(store) == expected
        assert store.search(FILES, limit=100) == before
    assert expected == {
        **{put.key: stat_of(put.key, encode_value(put.value)) for put in puts},
        **{put.key: None for put in others},
    }
    assert {key.removeprefix("/") for key, stat in expected.items() if stat is None and key[:1] == "/"} == {
        "no base64",
        "base64 with a line break",
        "base64 of no letters",
        "a buffer of a number",
        "a buffer of a huge number",
        "a buffer of flags",
        "bytes with a gap",
        "bytes that are none",
        "a buffer of text",
        "lines that are none",
        "null",
        "nothing",
    }


contents = st.one_of(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4), max_size=3
    ),
    st.text(st.sampled_from('ab= \n"\\'), max_size=8),
    st.binary(max_size=4).map(lambda data: {str(n): byte for n, byte in enumerate(data)}),
    st.lists(st.sampled_from([0, 255, 256, -1, True, 1.0, None, "1"]), max_size=3).map(
        lambda data: {"type": "Buffer", "data": data}
    ),
    st.sampled_from([None, True, 5, {}, {"type": "Buffer"}]),
)
values = st.fixed_dictionaries(
    {"content": contents},
    optional={
        "encoding": st.sampled_from(["base64", "utf-8", None]),
        "modified_at": st.sampled_from([AT, "", "é", None, 5, [AT]]),
        "n": st.just(2**64),
    },
)


@given(st.lists(values, min_size=1, max_size=20))
@settings(max_examples=30)
def test_random_files_are_known_as_if_they_had_been_put_now(
    tmp_path_factory: pytest.TempPathFactory, files: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("migrating") / "memory.db"
    puts = [PutItem(FILES, f"/{number}", value) for number, value in enumerate(files)]
    with SqliteStore(path) as store:
        store.batch(puts)
    downgrade(path)
    with SqliteStore(path) as store:
        assert stats(store) == {put.key: stat_of(put.key, encode_value(put.value)) for put in puts}


def test_everything_else_of_an_old_file_stays_and_works(path: Path) -> None:
    clock = ManualClock()
    options: dict[str, Any] = {
        "index": {"embed": lambda texts: [[float(len(text)), 1.0] for text in texts], "dims": 2},
        "index_keys": ["topic"],
        "clock": clock,
    }
    with SqliteStore(path, **options) as store:
        old = store.put_item(FILES, "/tide.md", {"content": ["the tide"], "topic": "sea"}, ttl=5)
        store.put(("notes",), "gull", {"text": "gulls and tides", "topic": "birds"})
        store.delete(("notes",), "gone")
        hits = store.search((), query="tides", mode="text", explain=True)
        near = store.search((), query="tides", mode="vector")
    assert [hit.key for hit in hits] == ["/tide.md", "gull"]
    downgrade(path)
    with SqliteStore(path, **options) as store:
        assert store.search((), query="tides", mode="text", explain=True) == hits
        assert store.search((), query="tides", mode="vector") == near
        assert [hit.key for hit in store.search((), filter={"topic": "sea"})] == ["/tide.md"]
        assert store.list_namespaces() == [FILES, ("notes",)]
        assert store.get(FILES, "/tide.md", refresh_ttl=False) == old
        store.put(FILES, "/new.md", {"content": ["a gull"]})
        assert [hit.key for hit in store.search((), limit=3)] == ["/new.md", "gull", "/tide.md"]
        assert [hit.key for hit in store.search(FILES, query="gull", mode="text")] == ["/new.md"]
        clock.advance(minutes=5)
        assert [each.key for each in store.list_keys(FILES)] == ["/new.md"]
        assert store.sweep_ttl() == 1


def test_a_migration_that_fails_half_way_leaves_the_old_file_and_is_done_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(path) as store:
        store.batch([PutItem(FILES, key, VALUES["lines"]) for key in ("note", "/0", "/1", "/2")])
        expected = stats(store)
    downgrade(path)
    before = schema(path)
    given: list[str] = []

    def fails_at_the_third(key: str, raw: bytes) -> Stat | None:
        given.append(key)
        return stat_of(key, raw if len(given) < 3 else b"no JSON")

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "stat_of", fails_at_the_third)
        with pytest.raises(ValueError, match="line 1"):
            SqliteStore(path).setup()
    assert given == ["/0", "/1", "/2"]
    assert schema(path) == before
    with SqliteStore(path) as store:
        assert stats(store) == expected


def test_an_up_to_date_file_is_read_no_further(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteStore(path) as store:
        store.put(FILES, "/a", VALUES["lines"])

    monkeypatch.setattr(migrations, "stat_of", None)
    with SqliteStore(path) as store:
        assert store.count(()) == 1
