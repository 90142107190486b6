"""Records are byte for byte those of the public package; what they hold more, it passes over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stateroom.drivers.aegis.mapping import (
    DEPTH_MAX,
    encode_data,
    items,
    key_tag,
    namespaces,
    prefix_tag,
    read,
    tags,
)
from stateroom.drivers.aegis.terms import terms
from stateroom.errors import LimitExceeded
from stateroom.model.json_values import decode_value, encode_value
from stateroom.stores.aegis import AegisStore
from tests.aegis import server as serving
from tests.aegis.server import AegisServer

USERS = ("users", "42")


@pytest.fixture
def server() -> Iterator[AegisServer]:
    with AegisServer() as running:
        yield running


def data(value: Any, namespace: tuple[str, ...] = USERS, key: str = "prefs") -> str:
    return encode_data(namespace, key, encode_value(value))


def row(id: int, text: str, *, updated: int = 5, tag: str = "k-x") -> dict[str, Any]:
    return {"id": id, "created": 1, "updated": updated, "tags": ["lg-store", tag], "data": text}


def test_tags_are_the_digests_that_the_public_package_makes() -> None:
    assert prefix_tag(()) == "p-e3b0c44298fc1c14"
    assert prefix_tag(("users",)) == "p-e4d1938e6a2b4286"
    assert prefix_tag(USERS) == "p-b659f590d5a9b087"
    assert key_tag(USERS, "prefs") == "k-da8b7a0d32d60857"
    assert key_tag(("é",), "日本") == "k-8b880a35ef4be152"
    assert tags(USERS, "prefs") == [
        "lg-store",
        "k-da8b7a0d32d60857",
        "p-e3b0c44298fc1c14",
        "p-e4d1938e6a2b4286",
        "p-b659f590d5a9b087",
    ]
    assert prefix_tag(("a", "bc")) != prefix_tag(("ab", "c"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"theme": "dark"}, '{"theme": "dark"}'),
        ({"b": 1, "a": {"d": [1.5, None], "c": True}}, '{"a": {"c": true, "d": [1.5, null]}, "b": 1}'),
        ({"é": "日本 😀"}, '{"é": "日本 😀"}'),
        ({"n": 2**70, "f": 1e16, "z": -0.0}, '{"f": 1e+16, "n": 1180591620717411303424, "z": -0.0}'),
        ({"q": 'say "hi" \\ there'}, r'{"q": "say \"hi\" \\ there"}'),
        ({}, "{}"),
    ],
)
def test_data_is_what_the_public_package_writes(value: Any, text: str) -> None:
    assert data(value) == f'{{"key": "prefs", "ns": ["users", "42"], "value": {text}}}'


def test_a_put_stores_that_record(server: AegisServer) -> None:
    with AegisStore(port=server.port, namespace="my-agent") as store:
        store.put(USERS, "prefs", {"theme": "dark"})
    (stored,) = server.table.rows.values()
    assert (stored.agent_id, stored.type, stored.expires_at) == ("my-agent", "semantic", None)
    assert stored.tags == tags(USERS, "prefs")
    assert stored.data == '{"key": "prefs", "ns": ["users", "42"], "value": {"theme": "dark"}}'


def test_words_behind_escapes_are_told_again_and_only_those() -> None:
    body = json.loads(data({"t": "hello\nworld\tand more\n\n  indented", "n": "a\x01b"}))
    assert list(body) == ["key", "ns", "value", "words"]
    assert set(body["words"].split()) == {"world", "and", "b"}
    assert "words" not in json.loads(data({"t": 'quo"ted \\ text', "x": "tail\n"}))


def test_words_are_left_out_where_there_is_no_room_for_them() -> None:
    text = "x\nword" * 140_000
    assert "words" not in json.loads(data({"t": text}))
    assert json.loads(data({"t": text}))["value"] == {"t": text}


def test_an_item_that_no_query_may_find_says_so() -> None:
    text = encode_data(USERS, "k", b'{"t":"a\\nb"}', is_indexed=False)
    assert text == r'{"index": false, "key": "k", "ns": ["users", "42"], "value": {"t": "a\nb"}}'
    found = read(row(1, text))
    assert found is not None
    assert not found.is_indexed


def test_the_deepest_namespace_has_29_labels() -> None:
    deepest = ("x",) * DEPTH_MAX
    assert len(tags(deepest, "k")) == 32
    with pytest.raises(ValueError, match=r"30 labels.*29") as caught:
        tags((*deepest, "x"), "k")
    assert isinstance(caught.value, LimitExceeded)
    assert caught.value.field == "namespace"


def test_the_largest_data_is_a_mebibyte() -> None:
    room = 1024 * 1024 - len(data({"t": ""}))
    assert len(data({"t": "x" * room})) == 1024 * 1024
    with pytest.raises(LimitExceeded, match=r"value takes 1,048,577 bytes.*1,048,576") as caught:
        data({"t": "x" * (room + 1)})
    assert caught.value.field == "value"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (data({"a": 1}), {"a": 1}),
        ('{"value": {"b": 1, "a": 2}, "key": "k", "ns": ["x"], "more": [1]}', {"b": 1, "a": 2}),
        ('{"key": "k", "ns": ["x"], "value": {"n": NaN, "i": -Infinity}}', {"n": None, "i": None}),
        (
            '{"key": "k", "ns": ["x"], "value": {"n": 123456789012345678901234567890}}',
            {"n": int("1234567890" * 3)},
        ),
        ('{"key": "k", "ns": ["x"], "value": null}', {}),
        ('{"key": "k", "ns": ["x"]}', {}),
        ("no json", None),
        ("[1]", None),
        ("{}", None),
        ('{"key": 1, "ns": ["x"], "value": {}}', None),
        ('{"key": "k", "ns": "x", "value": {}}', None),
        ('{"key": "k", "ns": [1], "value": {}}', None),
        ('{"key": "k", "ns": [], "value": {}}', None),
        ('{"key": "k", "ns": ["x"], "value": [1]}', None),
        ('{"key": "k", "ns": ["x"], "value": 5}', None),
    ],
)
def test_others_records_are_read_or_passed_over(text: str, value: Any) -> None:
    found = read(row(3, text))
    assert (found and decode_value(found.record.raw)) == value
    if found is not None:
        record = found.record
        assert (record.created_at, record.updated_at, record.revision) == (1_000, 5_000, 0)


def test_of_twins_the_oldest_is_the_item_and_others_of_the_same_digest_stay_apart() -> None:
    mine, other = data({"n": 1}), data({"n": 2}, ("elsewhere",), "other")
    records = [row(9, data({"n": 9})), row(4, mine), row(5, other), row(6, "no json")]
    assert [(item.id, item.value) for item in items(records, ())] == [(4, {"n": 1}), (5, {"n": 2})]
    assert [item.id for item in items(records, USERS)] == [4]


def test_namespaces_are_read_from_data_however_it_is_written() -> None:
    odd = ("a", '", "ns": ["b"], "value": {', "c\\")
    spelled = [data({"n": n}, odd, key) for n, key in enumerate(['x", "ns": ["no', "y"])]
    plain = json.dumps({"ns": ["p"], "value": {}, "key": "k"})
    hidden = encode_data(("h",), "k", b"{}", is_indexed=False)
    texts = [*spelled, plain, hidden, data({}), "no json", '{"key": "k", "ns": ["z"], "value": {']
    records = [row(number, text) for number, text in enumerate(texts)]
    assert namespaces(records) == {odd, ("p",), ("h",), USERS}


def test_terms_are_those_of_the_server() -> None:
    for text, found in (
        ("--tenant-max-records", ["tenant-max-records", "tenant", "max", "records"]),
        ("Hello, WORLD.", ["hello", "world"]),
        ("hnsw.c:214", ["hnsw.c:214", "hnsw", "214"]),
        ("_private __x__", ["_private", "private", "__x__"]),
        ("Zürich 咖啡", ["zürich", "咖啡"]),
        ("x" * 70, ["x" * 64]),
        (" .-/ ", []),
    ):
        assert [term.decode() for term in terms(text)] == found
        assert [term.encode("latin-1").decode() for term in serving.terms(text)] == found
