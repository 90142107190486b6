"""Which rule decides, what may become of what it answers, and what it is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from langgraph_sdk import Auth
from langgraph_sdk.auth.types import StudioUser
from starlette.types import Message, Receive

from stateroom.api.callers import STUDIO, Injected, principal_of, user_of
from stateroom.api.rules import Rules, metadata_of
from stateroom.engine.loops import Loops
from stateroom.errors import Denied, InvalidNamespace, Misconfigured, Unauthenticated
from stateroom.service.scope import Principal
from tests.server.auths import people, raising, rule

ANN = Principal("ann", ("read",), {"identity": "ann", "permissions": ["read"], "team": "blue"})

FILTERS: list[tuple[Any, Any]] = [
    (None, None),
    (True, None),
    ({}, None),
    ({"owner": "ann"}, {"owner": "ann"}),
    ({"owner": {"$eq": "ann"}}, {"owner": "ann"}),
    ({"n": {"$eq": 1}, "x": None}, {"n": 1, "x": None}),
    ({"members": {"$contains": "ann"}}, {"members": ["ann"]}),
    ({"members": {"$contains": ["ann", "bob"]}}, {"members": ["ann", "bob"]}),
]

UNUSABLE: list[Any] = [
    "yes",
    1,
    ["owner"],
    {"$or": [{"owner": "ann"}]},
    {1: "ann"},
    {"owner": ["ann"]},
    {"owner": {}},
    {"owner": {"id": 1, "name": "ann"}},
    {"owner": {"$ne": "ann"}},
    {"owner": {"$eq": {"id": 1}}},
    {"owner": {"$eq": "ann", "$contains": "ann"}},
    {"owner": {"$contains": {"id": 1}}},
    {"owner": {"$contains": [["ann"]]}},
]


@pytest.fixture(scope="module")
def loops() -> Iterator[Loops]:
    """Return loops for handlers."""
    loops = Loops()
    yield loops
    loops.close()


# ---- Which one decides.


def naming(name: str) -> Any:
    return rule(lambda _, value: value.update(by=name))


@pytest.mark.parametrize(
    ("registered", "decides"),
    [
        ([("threads", "create"), ("threads", "*"), ("*", "create"), ("*", "*")], "threads create"),
        ([("threads", "*"), ("*", "create"), ("*", "*")], "threads *"),
        ([("*", "create"), ("*", "*"), ("threads", "read")], "* create"),
        ([("*", "*"), ("threads", "read"), ("crons", "*"), ("*", "read")], "* *"),
        ([("threads", "read"), ("*", "read"), ("crons", "create")], None),
        ([], None),
    ],
)
async def test_most_specific_rule_decides_alone(
    loops: Loops, registered: list[tuple[str, str]], decides: str | None
) -> None:
    auth = people()
    for resource, action in registered:
        name = f"{resource} {action}"
        if (resource, action) == ("*", "*"):
            auth.on(naming(name))
        else:
            auth.on(resources=resource, actions=action)(naming(name))
    value: dict[str, Any] = {}
    scope = await Rules(auth, loops).decide(ANN, "threads", "create", value)
    assert (value.get("by"), scope.metadata, scope.principal) == (decides, None, ANN)


@pytest.mark.parametrize(
    ("registered", "decides"),
    [
        (["threads.create", "crons.create"], "crons.create"),
        (["threads.create", "crons"], "crons"),
        (["threads.create", "threads"], "threads.create"),
        (["threads", "crons.read"], "threads"),
        (["assistants"], None),
    ],
)
async def test_crons_go_by_the_rules_of_threads(
    loops: Loops, registered: list[str], decides: str | None
) -> None:
    auth = people()
    for name in registered:
        resource, _, action = name.partition(".")
        on = getattr(auth.on, resource)
        (getattr(on, action) if action else on)(naming(name))
    value: dict[str, Any] = {}
    await Rules(auth, loops).decide(ANN, "crons", "create", value)
    assert value.get("by") == decides


async def test_rule_is_told_who_and_what(loops: Loops) -> None:
    auth = people()
    seen: list[Any] = []

    @auth.on
    async def note(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> None:
        seen.append((ctx.resource, ctx.action, ctx.permissions, value, threading.current_thread()))
        user: Any = ctx.user
        seen.append((user.identity, user.display_name, user.permissions, user.is_authenticated))
        seen.append((user["team"], user.team, "team" in user, "rank" in user, sorted(user)))

    await Rules(auth, loops).decide(ANN, "threads", "read", {"thread_id": "t"})
    assert seen[0][:4] == ("threads", "read", ("read",), {"thread_id": "t"})
    assert seen[0][4] is not threading.current_thread()
    assert seen[1] == ("ann", "ann", ["read"], True)
    assert seen[2] == ("blue", "blue", True, False, ["identity", "permissions", "team"])


# ---- What it answers.


@pytest.mark.parametrize(("found", "metadata"), FILTERS)
def test_filter_becomes_containment(found: Any, metadata: Any) -> None:
    assert metadata_of(found, "threads.read") == metadata


@pytest.mark.parametrize("found", UNUSABLE, ids=repr)
def test_filter_that_containment_cannot_express(found: Any) -> None:
    with pytest.raises(Misconfigured, match=r"threads\.read"):
        metadata_of(found, "threads.read")


REFUSING = rule(lambda *_: False)


@pytest.mark.parametrize(
    ("handler", "error", "text"),
    [
        (REFUSING, Denied, "threads.read"),
        (raising(AssertionError("not yours")), Denied, "not yours"),
        (raising(AssertionError()), Denied, "threads.read"),
        (raising(Auth.exceptions.HTTPException(418, "no")), Auth.exceptions.HTTPException, "418: no"),
        (raising(KeyError("x")), KeyError, "x"),
    ],
)
async def test_refusal(loops: Loops, handler: Any, error: type[Exception], text: str) -> None:
    auth = people()
    auth.on(handler)
    with pytest.raises(error, match=text):
        await Rules(auth, loops).decide(ANN, "threads", "read", {})


# ---- The store: its rules may rewrite, and without them everybody is confined.


def storing(*rules: Any, **named: Any) -> Auth:
    auth = people()
    for each in rules:
        auth.on.store(each)
    for action, each in named.items():
        (auth.on if action == "everything" else getattr(auth.on.store, action))(each)
    return auth


@pytest.mark.parametrize(
    ("action", "namespace", "wanted"),
    [
        ("get", ("ann", "notes"), ("ann", "notes")),
        ("get", ("ann",), ("ann",)),
        ("get", ("annette",), None),
        ("get", ("bob", "ann"), None),
        ("get", (), None),
        ("put", ("bob",), None),
        ("delete", ("bob",), None),
        ("search", (), ("ann",)),
        ("search", ("*",), None),
        ("list_namespaces", None, ("ann",)),
        ("list_namespaces", ("*", "notes"), None),
        ("list_namespaces", ("ann", "*"), ("ann", "*")),
    ],
)
async def test_without_a_rule_the_store_is_ones_own(
    loops: Loops, action: str, namespace: tuple[str, ...] | None, wanted: tuple[str, ...] | None
) -> None:
    value = {"namespace": namespace, "key": "k"}
    deciding = Rules(people(), loops).decide(ANN, "store", action, value)
    if wanted is None:
        with pytest.raises(Denied, match=r"@auth\.on\.store"):
            await deciding
    else:
        await deciding
        assert value["namespace"] == wanted


async def test_user_named_like_a_wildcard_lists_nobody_elses(loops: Loops) -> None:
    star = Principal("*", (), {"identity": "*"})
    with pytest.raises(Denied):
        await Rules(people(), loops).decide(star, "store", "list_namespaces", {"namespace": None})


async def test_rule_for_everything_confines_still(loops: Loops) -> None:
    async def stamp(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> dict[str, str]:
        value.setdefault("metadata", {})["owner"] = ctx.user.identity
        return {"owner": ctx.user.identity}

    rules = Rules(storing(everything=stamp), loops)
    await rules.decide(ANN, "store", "get", {"namespace": ("ann",), "key": "k"})
    with pytest.raises(Denied, match=r"@auth\.on\.store"):
        await rules.decide(ANN, "store", "get", {"namespace": ("bob",), "key": "k"})


async def test_rule_for_everything_can_deny(loops: Loops) -> None:
    rules = Rules(storing(everything=REFUSING), loops)
    with pytest.raises(Denied, match=r"store\.get"):
        await rules.decide(ANN, "store", "get", {"namespace": ("ann",), "key": "k"})


async def test_rule_for_the_store_shares_and_rewrites(loops: Loops) -> None:
    async def prefix(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> None:
        value["namespace"] = [ctx.user.identity, *(value["namespace"] or ())]
        value["key"] = value["key"].upper()

    value: dict[str, Any] = {"namespace": ("shared",), "key": "k"}
    await Rules(storing(prefix), loops).decide(ANN, "store", "get", value)
    assert (value["namespace"], value["key"]) == (("ann", "shared"), "K")


async def test_rule_for_one_action_leaves_the_others_confined(loops: Loops) -> None:
    rules = Rules(storing(get=rule(lambda *_: True)), loops)
    await rules.decide(ANN, "store", "get", {"namespace": ("bob",), "key": "k"})
    with pytest.raises(Denied):
        await rules.decide(ANN, "store", "put", {"namespace": ("bob",), "key": "k"})


@pytest.mark.parametrize(
    "change",
    [{"namespace": "ann"}, {"namespace": ["ann", 5]}, {"namespace": [""]}, {"namespace": 5}, {"key": None}],
)
async def test_rewriting_to_nonsense_is_the_rules_fault(loops: Loops, change: dict[str, Any]) -> None:
    spoil = rule(lambda _, value: value.update(change))
    with pytest.raises(Misconfigured, match=r"the rule for store\.get rewrote"):
        await Rules(storing(spoil), loops).decide(ANN, "store", "get", {"namespace": ("a",), "key": "k"})


async def test_nonsense_of_the_callers_is_his_fault(loops: Loops) -> None:
    with pytest.raises(InvalidNamespace):
        await Rules(people(), loops).decide(ANN, "store", "get", {"namespace": ("",), "key": "k"})


async def test_filter_is_nothing_that_a_store_can_keep(loops: Loops) -> None:
    filtered = rule(lambda *_: {"owner": "ann"})
    with pytest.raises(Misconfigured, match=r"store\.get returned a filter"):
        await Rules(storing(filtered), loops).decide(ANN, "store", "get", {"namespace": ("a",), "key": "k"})


# ---- Who a caller is.


@dataclass
class Member:
    identity: str
    permissions: list[str]
    level: int = 3


@pytest.mark.parametrize(
    ("found", "permissions", "rest"),
    [
        ("ann", (), {}),
        ({"identity": "ann"}, (), {}),
        ({"identity": "ann", "permissions": ["a", "b"], "email": "a@b"}, ("a", "b"), {"email": "a@b"}),
        (Member("ann", ["a"]), ("a",), {"level": 3}),
    ],
)
def test_caller_in_every_form(found: Any, permissions: tuple[str, ...], rest: dict[str, Any]) -> None:
    principal = principal_of(found)
    assert (principal.identity, principal.permissions) == ("ann", permissions)
    usual = {"identity": "ann", "permissions": list(permissions), "display_name": "ann"}
    assert principal.user == usual | {"is_authenticated": True} | rest


@pytest.mark.parametrize(
    "found", [None, 5, "", {}, {"identity": None}, {"identity": 5}, {"identity": "a", "x": b"y"}, object()]
)
def test_caller_in_no_form(found: Any) -> None:
    with pytest.raises(Misconfigured, match=r"@auth\.authenticate"):
        principal_of(found)


def test_caller_who_is_not_authenticated() -> None:
    with pytest.raises(Unauthenticated):
        principal_of({"identity": "ann", "is_authenticated": False})


def test_studio_user_is_one_again() -> None:
    user = user_of(STUDIO.principal.user)
    assert isinstance(user, StudioUser)
    assert (user.identity, user.permissions) == ("langgraph-studio-user", ["authenticated"])


def test_rules_without_authentication(loops: Loops) -> None:
    with pytest.raises(Misconfigured, match=r"@auth\.authenticate"):
        Rules(Auth(), loops)


def test_parameter_that_nobody_knows() -> None:
    async def who(token: str) -> str:
        return token

    with pytest.raises(Misconfigured, match="token"):
        Injected(who)


async def test_parameter_with_a_default_is_left_alone() -> None:
    async def who(method: str, *rest: Any, deep: bool = False, **options: Any) -> str:
        return f"{method} {deep} {rest} {options}"

    assert await Injected(who).values({"type": "http", "method": "GET"}, _nothing) == {"method": "GET"}


def _nothing() -> Receive:
    async def receive() -> Message:
        await asyncio.Event().wait()
        return {}

    return receive
