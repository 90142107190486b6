"""What the public adapter promises holds, and what it does not keep does too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore, PutOp

from stateroom.contract.items import Capability
from stateroom.drivers.aegis.mapping import encode_data, key_tag, tags
from stateroom.errors import (
    LimitExceeded,
    Misconfigured,
    NotSupported,
    StateroomError,
    Unavailable,
)
from stateroom.stores.aegis import AegisStore
from stateroom.stores.operations import DeleteItem, ListItemKeys, PutItem
from tests.aegis.server import AegisServer, Token
from tests.tidy.test_readme import run_page

USERS = ("users", "42")
OURS = "langgraph"


@pytest.fixture
def server() -> Iterator[AegisServer]:
    with AegisServer() as running:
        yield running


@pytest.fixture
def store(server: AegisServer) -> Iterator[AegisStore]:
    with AegisStore(port=server.port) as opened:
        yield opened


class Client:
    """What a client of the public ``aegisdb`` package tells of itself."""

    connect_timeout, read_timeout = 2.0, 10.0

    def __init__(self, server: AegisServer, agent_id: str | None, token: str = "") -> None:
        self.host, self.port = "127.0.0.1", server.port
        self.agent_id, self.token = agent_id, token


def insert(server: AegisServer, namespace: tuple[str, ...], key: str, value: Any, **fields: Any) -> int:
    """Do what a writer of the public package does, or one that does worse."""
    data = json.dumps({"ns": list(namespace), "key": key, "value": value}, ensure_ascii=False, sort_keys=True)
    request = {"type": "semantic", "agent_id": OURS, "data": data, "tags": tags(namespace, key), **fields}
    answer = server.table.answer({"operation": "insert", **request})
    assert answer["ok"], answer
    number: int = answer["record"]["id"]
    return number


def test_the_example_of_the_public_package(server: AegisServer) -> None:
    store = AegisStore(host="127.0.0.1", port=server.port, namespace="my-agent")
    store.put(USERS, "prefs", {"theme": "dark"})
    item = store.get(USERS, "prefs")
    assert item is not None
    assert item.value == {"theme": "dark"}
    (hit,) = store.search(("users",), query="dark")
    assert (hit.value, hit.score is not None and hit.score > 0) == ({"theme": "dark"}, True)
    assert store.list_namespaces() == [USERS]
    assert (item.revision, hit.revision) == (None, None)
    store.close()


def test_the_page_about_the_store_says_what_its_code_gives(server: AegisServer) -> None:
    page = (Path(__file__).parents[2] / "docs" / "aegis.md").read_text(encoding="utf-8")
    served = page.replace("```py\n", "```python\n").replace("port=9470", f"port={server.port}")
    assert run_page(served, "aegis.md") == 3


def test_a_graph_is_given_the_store(store: AegisStore) -> None:
    class State(TypedDict):
        user: str

    def remember(state: State, *, store: BaseStore) -> State:
        store.put(("users", state["user"]), "last", {"seen": "hello"})
        return state

    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", END)
    builder.compile(store=store).invoke({"user": "42"})
    item = store.get(USERS, "last")
    assert item is not None
    assert item.value == {"seen": "hello"}


def test_what_the_store_can_do(store: AegisStore) -> None:
    assert store.capabilities == {Capability.TEXT, Capability.DURABLE, Capability.MULTI_PROCESS}
    assert store.supports_ttl is False
    assert store.sweep_ttl() == 0


@pytest.mark.parametrize("operation", [PutOp(USERS, "k", {}, ttl=5), PutItem(USERS, "k", {}, ttl=5)])
def test_a_ttl_is_refused_and_the_way_out_named(store: AegisStore, operation: PutOp | PutItem) -> None:
    for put in (lambda: store.put(USERS, "k", {}, ttl=5), lambda: store.batch([operation])):
        with pytest.raises(NotImplementedError, match=r"working memory.*`forget`") as caught:
            put()
        assert isinstance(caught.value, NotSupported)
        assert caught.value.field == "ttl"
    assert store.get(USERS, "k") is None


def test_an_index_of_a_put_is_accepted_and_false_hides_the_item_from_queries(store: AegisStore) -> None:
    store.put(USERS, "some", {"a": "giraffe", "b": "zebra"}, index=["a"])
    store.put(USERS, "none", {"a": "giraffe"}, index=False)
    assert [hit.key for hit in store.search(USERS, query="giraffe")] == ["some"]
    assert {hit.key for hit in store.search(USERS)} == {"some", "none"}
    store.put(USERS, "none", {"a": "giraffe"})
    assert len(store.search(USERS, query="giraffe")) == 2


def test_two_namespaces_do_not_see_each_other(server: AegisServer, store: AegisStore) -> None:
    with AegisStore(port=server.port, namespace="other") as other:
        store.put(USERS, "k", {"t": "giraffe"})
        other.put(USERS, "k", {"t": "other giraffe"})
        for one, text in ((store, "giraffe"), (other, "other giraffe")):
            assert [hit.value["t"] for hit in one.search(())] == [text]
            assert [hit.value["t"] for hit in one.search(("users",), query="giraffe")] == [text]
            assert one.count(()) == 1
        other.delete(USERS, "k")
        assert other.list_namespaces() == []
        assert store.get(USERS, "k") is not None


def test_a_client_says_where_to_ask_and_as_whom(server: AegisServer) -> None:
    store = AegisStore(client=Client(server, "mine"))
    assert store.namespace == "mine"
    assert AegisStore(client=Client(server, "mine"), namespace="mine").namespace == "mine"
    with pytest.raises(ValueError, match=r"'other'.*'mine'") as caught:
        AegisStore(client=Client(server, "mine"), namespace="other")
    assert isinstance(caught.value, Misconfigured)
    store.put(USERS, "k", {})
    assert [row.agent_id for row in server.table.rows.values()] == ["mine"]
    store.close()


def test_a_client_without_an_agent_id_has_no_namespace(server: AegisServer) -> None:
    with AegisStore(client=Client(server, None), search_scan_limit=3) as store:
        assert store.namespace is None
        for number in range(12):
            store.put(USERS, str(number), {"n": number})
        assert [row.agent_id for row in server.table.rows.values()] == [None] * 12
        assert [hit.value["n"] for hit in store.search((), limit=20)] == [*reversed(range(12))]
        assert store.count(("users",), filter={"n": {"$gt": 5}}) == 6
        assert not [each for each in server.requests if each["operation"] == "export"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"client": object()}, "client"),
        ({"namespace": ""}, "namespace"),
        ({"namespace": "a\nb"}, "namespace"),
        ({"namespace": "é" * 65}, "namespace"),
        ({"port": 0}, "port"),
        ({"port": "9470"}, "port"),
        ({"host": ""}, "host"),
        ({"token": 5}, "token"),
        ({"search_scan_limit": 0}, "search_scan_limit"),
        ({"search_scan_limit": True}, "search_scan_limit"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(Misconfigured, match=field) as caught:
        AegisStore(**options)
    assert caught.value.field == field


def test_the_scan_limit_is_clamped_and_is_the_size_of_pages(server: AegisServer) -> None:
    assert AegisStore(port=server.port, search_scan_limit=5_000).search_scan_limit == 1_000
    with AegisStore(port=server.port, search_scan_limit=7) as store:
        store.batch([PutItem(USERS, str(n), {}) for n in range(30)])
        server.requests.clear()
        assert store.count(("users",)) == 30
        assert {each["top_k"] for each in server.requests} == {7, 8}


def test_a_server_without_a_lexical_index_says_which_flag_to_drop() -> None:
    with AegisServer(has_lexical_index=False) as server, AegisStore(port=server.port) as store:
        store.put(USERS, "k", {"t": "giraffe"})
        with pytest.raises(RuntimeError, match="--no-lexical-index") as caught:
            store.search(("users",), query="giraffe")
        assert isinstance(caught.value, NotSupported)
        assert [hit.key for hit in store.search(("users",), filter={"t": "giraffe"})] == ["k"]


def test_a_put_again_keeps_the_record_and_its_creation(server: AegisServer, store: AegisStore) -> None:
    first = store.put_item(USERS, "k", {"n": 1})
    (id,) = server.table.rows
    again = store.put_item(USERS, "k", {"n": 2})
    assert [*server.table.rows] == [id]
    assert again.created_at == first.created_at < again.updated_at


@pytest.mark.parametrize("version", ["0.7.0", "0.9.4"])
@pytest.mark.parametrize("prefix", [(), ("users",)])
def test_no_page_loses_a_row_of_one_moment(version: str, prefix: tuple[str, ...]) -> None:
    with AegisServer(version=version, clock=lambda: 5) as server, AegisStore(port=server.port) as store:
        store.batch([PutItem(("users", str(n % 3)), str(n), {"n": n}) for n in range(2_500)])
        pages = [store.search(prefix, limit=500, offset=start) for start in range(0, 2_500, 500)]
        assert [hit.key for page in pages for hit in page] == [str(n) for n in reversed(range(2_500))]


def test_beyond_a_thousand_items_filters_and_listings_are_complete(store: AegisStore) -> None:
    store.batch([PutItem(("old", str(n % 5)), str(n), {"n": n}) for n in range(1_200)])
    store.put(("fresh",), "k", {"n": -1})
    assert [hit.key for hit in store.search((), filter={"n": -1})] == ["k"]
    assert [hit.key for hit in store.search(("old",), filter={"n": {"$in": [0, 1_199]}})] == ["1199", "0"]
    assert store.list_namespaces(max_depth=1) == [("fresh",), ("old",)]
    assert store.count(()) == 1_201
    assert [hit.key for hit in store.search((), limit=2)] == ["k", "1199"]


def test_beyond_a_thousand_items_a_listing_of_keys_is_complete(
    server: AegisServer, store: AegisStore
) -> None:
    keys = [f"/{n:04}.md" for n in range(1_200)]
    store.batch([PutItem(USERS, key, {"content": [key]}) for key in keys])
    store.put((*USERS, "deeper"), "/0000.md", {"content": ["other"]})
    store.put(("users", "421"), "/0000.md", {})
    server.requests.clear()
    entries = store.list_keys(USERS, limit=10_000, values=True)
    assert [(entry.key, entry.size, entry.value) for entry in entries] == [
        (key, len(key), {"content": [key]}) for key in keys
    ]
    assert {each["operation"] for each in server.requests} == {"search"}
    assert [entry.key for entry in store.list_keys(USERS, containing="1199")] == ["/1199.md"]
    assert [entry.key for entry in store.list_keys(USERS, prefix="/119", after="/1197.md", limit=1)] == [
        "/1198.md"
    ]


def test_a_listing_of_keys_in_a_batch_waits_for_the_writes_before_it(store: AegisStore) -> None:
    listing = ListItemKeys(USERS)
    results = store.batch(
        [
            PutItem(USERS, "/a", {"content": ["one"]}),
            listing,
            PutItem(USERS, "/b", {}),
            listing,
            DeleteItem(USERS, "/a"),
            listing,
        ]
    )
    listed = [[entry.key for entry in results[place]] for place in (1, 3, 5)]
    assert listed == [["/a"], ["/a", "/b"], ["/b"]]


def test_a_deletion_between_two_pages_hides_nothing(server: AegisServer, store: AegisStore) -> None:
    store.batch([PutItem(USERS, str(n), {"n": n}) for n in range(2_100)])
    store.put(("other",), "k", {})
    search = server.table.do_search
    pages = iter(range(10))

    def deleting(request: Any) -> dict[str, Any]:
        answer = search(request)
        # The second page is read after the oldest record of the first one has gone.
        if next(pages) == 0:
            server.table._remove(next(iter(server.table.rows.values())))
        return answer

    server.table.do_search = deleting  # type: ignore[method-assign]
    found = store.search(("users",), limit=10_000)
    assert {hit.value["n"] for hit in found} >= set(range(1, 2_100))
    assert len(found) == len({hit.key for hit in found})


def test_writers_who_race_leave_one_record(server: AegisServer, store: AegisStore) -> None:
    insert_one = server.table.do_insert

    def racing(request: Any) -> dict[str, Any]:
        # Somebody who did not look inserts the same item just before us.
        server.table.do_insert = insert_one  # type: ignore[method-assign]
        insert(server, USERS, "k", {"by": "other"})
        return insert_one(request)

    server.table.do_insert = racing  # type: ignore[method-assign]
    item = store.put_item(USERS, "k", {"by": "us"})
    assert item.value == {"by": "us"}
    (row,) = server.table.rows.values()
    assert json.loads(row.data)["value"] == {"by": "us"}


def test_stores_that_put_the_same_keys_at_once_leave_one_record_of_each(server: AegisServer) -> None:
    stores = [AegisStore(port=server.port) for _ in range(4)]

    def put_all(store: AegisStore) -> None:
        for number in range(40):
            store.put(USERS, str(number), {"by": id(store)})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(put_all, stores))
    assert len(server.table.rows) == 40
    assert stores[0].count(()) == 40
    for store in stores:
        store.close()


def test_async_calls_need_no_thread(server: AegisServer) -> None:
    async def use() -> list[Any]:
        def refuse(*_args: Any) -> Any:
            raise AssertionError("a thread was asked for")

        asyncio.get_running_loop().run_in_executor = refuse  # type: ignore[method-assign,assignment]
        async with AegisStore(port=server.port) as store:
            await store.aput(USERS, "k", {"t": "giraffe"})
            found = [await store.aget(USERS, "k"), *await store.asearch((), query="giraffe")]
            return [*found, await store.acount(()), await store.alist_namespaces()]

    item, hit, counted, names = asyncio.run(use())
    assert (item.value, hit.value, counted, names) == ({"t": "giraffe"}, {"t": "giraffe"}, 1, [USERS])


def test_an_item_deleted_under_a_put_is_put_anew(server: AegisServer, store: AegisStore) -> None:
    store.put(USERS, "k", {"n": 1})
    search = server.table.do_search
    gone: list[int] = []

    def deleting(request: Any) -> dict[str, Any]:
        answer = search(request)
        if not gone and answer["records"]:
            gone.append(answer["records"][0]["id"])
            server.table._remove(server.table.rows[gone[0]])
        return answer

    server.table.do_search = deleting  # type: ignore[method-assign]
    store.put(USERS, "k", {"n": 2})
    (row,) = server.table.rows.values()
    assert json.loads(row.data)["value"] == {"n": 2}
    assert row.id != gone[0]


def test_twins_that_others_left_count_once_and_go_with_the_next_write(
    server: AegisServer, store: AegisStore
) -> None:
    first = insert(server, USERS, "k", {"n": 1, "t": "giraffe"})
    for number in range(2, 5):
        insert(server, USERS, "k", {"n": number, "t": "giraffe"})
    item = store.get(USERS, "k")
    assert item is not None
    assert item.value["n"] == 1
    assert [hit.value["n"] for hit in store.search(())] == [1]
    assert len(store.search(("users",), query="giraffe")) == store.count(()) == 1
    assert [entry.value and entry.value["n"] for entry in store.list_keys(USERS, values=True)] == [1]
    store.put(USERS, "k", {"n": "new"})
    assert [*server.table.rows] == [first]
    insert(server, USERS, "k", {"n": "resurrected"})
    store.delete(USERS, "k")
    assert server.table.rows == {}
    assert store.get(USERS, "k") is None


def test_words_after_newlines_are_found_and_names_of_members_are_not(store: AegisStore) -> None:
    store.put(USERS, "k", {"text": "hello\nworld\tagain\r\nlast", "more": ["one\ntwo"]})
    for word in ("hello", "world", "again", "last", "two"):
        assert [hit.key for hit in store.search((), query=word)] == ["k"], word
    for word in ("nworld", "ns", "key", "value", "text", "words", "users", "42"):
        assert store.search((), query=word) == [], word


def test_a_record_with_our_tag_and_another_key_is_not_the_item(
    server: AegisServer, store: AegisStore
) -> None:
    data = encode_data(("other",), "other", b'{"n":1}')
    forged = ["lg-store", key_tag(USERS, "k"), *tags(("other",), "other")[2:]]
    server.table.answer(
        {"operation": "insert", "type": "semantic", "agent_id": OURS, "data": data, "tags": forged}
    )
    assert store.get(USERS, "k") is None
    store.put(USERS, "k", {"n": 2})
    assert len(server.table.rows) == 2
    store.delete(USERS, "k")
    assert len(server.table.rows) == 1


def test_records_that_are_no_items_disturb_nobody(server: AegisServer, store: AegisStore) -> None:
    store.put(USERS, "k", {"t": "giraffe"})
    for data in ("giraffe", "[1]", '{"key": "k", "ns": ["users"], "value": ["giraffe"]}'):
        server.table.answer(
            {
                "operation": "insert",
                "type": "semantic",
                "agent_id": OURS,
                "data": data,
                "tags": tags(("users",), "k"),
            }
        )
    for options in ({}, {"query": "giraffe"}, {"filter": {"t": {"$ne": 1}}}):
        assert [hit.key for hit in store.search((), **options)] == ["k"]
    assert store.get(("users",), "k") is None
    assert store.list_namespaces() == [USERS]


def test_nothing_counts_as_a_recall(server: AegisServer, store: AegisStore) -> None:
    store.put(USERS, "k", {"t": "giraffe"})
    store.put(USERS, "k", {"t": "giraffe"})
    store.get(USERS, "k")
    store.search(("users",))
    store.search(("users",), query="giraffe")
    store.list_namespaces()
    assert [row.recalls for row in server.table.rows.values()] == [0]


def test_the_rarer_tag_comes_first_in_searches(server: AegisServer, store: AegisStore) -> None:
    store.get(USERS, "k")
    store.search(("users",), query="x")
    store.search(("users",))
    asked = [each["tags"] for each in server.requests if each["operation"] == "search"]
    assert len(asked) == 3
    assert all(each[-1] == "lg-store" and len(each) == 2 for each in asked)


def test_each_operation_of_a_batch_stands_alone_and_the_first_not_done_is_named() -> None:
    tokens = {"t": Token("mine")}
    with AegisServer(tokens=tokens, records_max=2) as server:
        store = AegisStore(port=server.port, token="t", namespace="mine")
        with pytest.raises(LimitExceeded, match=r"ops\[2\].*QUOTA_EXCEEDED.*first operation"):
            store.batch([PutItem(USERS, str(n), {}) for n in range(4)])
        assert sorted(hit.key for hit in store.search(())) == ["0", "1"]
        store.close()


def test_what_cannot_be_stored_keeps_its_whole_batch_from_being_sent(store: AegisStore) -> None:
    for bad in (PutItem(USERS, "k", {"t": "x" * 1_100_000}), PutItem(("x",) * 30, "k", {})):
        with pytest.raises(ValueError, match=r"ops\[1\]"):
            store.batch([PutItem(USERS, "first", {}), bad])
        with pytest.raises(LimitExceeded):
            store.put(*bad[:3])
    store.put(USERS, "raw", {"t": "é" * 400_000})
    with pytest.raises(LimitExceeded, match="value") as caught:
        store.put(USERS, "escaped", {"t": '"' * 500_000})
    assert caught.value.field == "value"
    assert [hit.key for hit in store.search(())] == ["raw"]
    assert store.get(("x",) * 30, "k") is None


TOKENS = {"all": Token(), "mine": Token("mine"), "reads": Token("mine", may_write=False)}


@pytest.mark.parametrize(
    ("options", "token", "error", "field"),
    [
        ({"tokens": TOKENS}, None, Misconfigured, "token"),
        ({"tokens": TOKENS}, "wrong", Misconfigured, "token"),
        ({"tokens": TOKENS}, "reads", Misconfigured, "token"),
        ({"is_read_only": True}, None, NotSupported, None),
    ],
)
def test_a_refusal_says_what_to_do(
    options: dict[str, Any], token: str | None, error: type[StateroomError], field: str | None
) -> None:
    with AegisServer(**options) as server, AegisStore(port=server.port, token=token) as store:
        with pytest.raises(error, match="AegisDB refused") as caught:
            store.put(USERS, "k", {})
        assert (caught.value.field, caught.value.retryable) == (field, False)


def test_a_token_pins_the_namespace(server: AegisServer) -> None:
    with AegisServer(tokens=TOKENS) as guarded:
        everyone = AegisStore(port=guarded.port, token="all", namespace="theirs")
        mine = AegisStore(port=guarded.port, token="mine", namespace="ignored")
        everyone.put(USERS, "k", {"by": "them"})
        mine.put(USERS, "k", {"by": "me"})
        reader = AegisStore(client=Client(guarded, None, "reads"))
        for store in (mine, reader):
            assert [hit.value for hit in store.search(())] == [{"by": "me"}]
        assert {row.agent_id for row in guarded.table.rows.values()} == {"mine", "theirs"}
        for store in (everyone, mine, reader):
            store.close()
    assert server.requests == []


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("RATE_LIMITED", Unavailable),
        ("MEMORY_LIMIT", Unavailable),
        ("INTERNAL", Unavailable),
        ("NOT_READY", Unavailable),
        ("IMMUTABLE", NotSupported),
        ("PAYLOAD_TOO_LARGE", LimitExceeded),
        ("OF_TOMORROW", NotSupported),
    ],
)
def test_every_code_becomes_one_of_our_errors(
    server: AegisServer, store: AegisStore, code: str, error: type[StateroomError]
) -> None:
    answer = {"ok": False, "error": {"code": code, "message": "because"}}
    server.table.answer = lambda _request: dict(answer)  # type: ignore[method-assign,assignment]
    for call in (
        lambda: store.get(USERS, "k"),
        lambda: store.search(()),
        lambda: store.batch([DeleteItem(USERS, "k")]),
    ):
        with pytest.raises(error, match=f"{code}: because"):
            call()


def test_a_limit_of_nothing_asks_nothing(server: AegisServer, store: AegisStore) -> None:
    store.put(USERS, "k", {"t": "giraffe"})
    server.requests.clear()
    assert store.search(USERS, limit=0) == store.search(USERS, limit=0, query="giraffe") == []
    assert store.list_namespaces(limit=0) == []
    assert store.list_keys(USERS, limit=0) == store.list_keys(()) == []
    assert server.requests == []
