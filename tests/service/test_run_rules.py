"""What a request for a run may say, and what becomes of it: nothing is passed over in silence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.errors import InvalidInput, LimitExceeded, NotSupported, StateroomError
from stateroom.model.cron import Completion
from stateroom.model.limits import AFTER_SECONDS_MAX
from stateroom.model.private_keys import is_private
from stateroom.model.run import Multitask
from stateroom.model.run_kwargs import STREAM_MODES, RunKwargs
from stateroom.model.thread import ThreadStatus
from stateroom.service.run_config import chosen_headers, is_servers, split_config
from stateroom.service.run_requests import RunRequest
from stateroom.service.run_rules import admission_of, kwargs_of


def request(**said: Any) -> RunRequest:
    return RunRequest(**{"assistant_id": "agent", "thread_id": "t", **said})


def kwargs(**said: Any) -> RunKwargs:
    return kwargs_of(request(**said))[0]


def look(at: RunRequest) -> None:
    admission_of(at)
    kwargs_of(at)


def check_refused(kind: type[StateroomError], field: str, **said: Any) -> None:
    with pytest.raises(kind) as caught:
        look(request(**said))
    assert (caught.value.field, type(caught.value)) == (field, kind)


# ---- What a request that says nothing means.


def test_a_request_that_says_nothing_is_as_usual() -> None:
    assert kwargs() == RunKwargs()
    assert admission_of(request()) == (Multitask.ENQUEUE, False, 0, None)
    assert kwargs(thread_id=None) == RunKwargs(temporary=True)


# ---- The thread and the queue.


def test_what_is_said_of_the_queue() -> None:
    expected: Any = (Multitask.ROLLBACK, True, 1_500_000, {ThreadStatus.IDLE, ThreadStatus.ERROR})
    said = request(
        multitask_strategy="rollback",
        if_not_exists="create",
        after_seconds=1.5,
        if_thread_status=["idle", "error"],
    )
    assert admission_of(said) == expected


@pytest.mark.parametrize(
    ("said", "value"),
    [
        *[("multitask_strategy", value) for value in ("", "both", None, 1)],
        *[("if_not_exists", value) for value in ("make", None)],
        *[("if_thread_status", value) for value in ([], "idle", ["sleepy"], [1])],
        *[("after_seconds", value) for value in (-1, -0.001, float("nan"), "5", True)],
    ],
)
def test_what_cannot_be_meant_of_the_queue_is_refused(said: str, value: Any) -> None:
    check_refused(InvalidInput, said, **{said: value})


def test_a_run_can_be_put_off_by_a_day_and_no_more() -> None:
    assert admission_of(request(after_seconds=0)).delay == 0
    assert admission_of(request(after_seconds=AFTER_SECONDS_MAX)).delay == 86_400_000_000
    check_refused(LimitExceeded, "after_seconds", after_seconds=AFTER_SECONDS_MAX + 1)
    check_refused(LimitExceeded, "after_seconds", after_seconds=float("inf"))


# ---- Commands.


ANSWERS: list[Any] = [0, False, "", [], {"id": {"x": 1}}, "yes"]


@pytest.mark.parametrize(
    "command",
    [{"resume": answer} for answer in ANSWERS]
    + [
        {"update": {"n": 1}},
        {"update": [["n", 1], ["m", None]]},
        {"goto": "node"},
        {"goto": {"node": "a", "input": {"x": 1}}},
        {"goto": ["a", {"node": "b", "input": None}]},
        {"goto": [], "update": {}, "resume": 1},
    ],
)
def test_a_command_reaches_the_run_as_it_is(command: dict[str, Any]) -> None:
    assert kwargs(command=command).command == command


@pytest.mark.parametrize("command", [{}, {"resume": None}, {"update": None, "goto": None}])
def test_a_command_that_says_nothing_is_none(command: dict[str, Any]) -> None:
    assert kwargs(command=command, input={"n": 1}) == RunKwargs(input={"n": 1})


@pytest.mark.parametrize(
    ("command", "field"),
    [
        ({"graph": "PARENT"}, "command.graph"),
        ({"update": "n"}, "command.update"),
        ({"update": ["ab"]}, "command.update"),
        ({"update": [["n", 1, 2]]}, "command.update"),
        ({"goto": 3}, "command.goto"),
        ({"goto": [3]}, "command.goto"),
        ({"goto": {"input": 1}}, "command.goto"),
        ({"goto": {"node": "a", "when": 1}}, "command.goto"),
    ],
)
def test_a_command_of_another_shape_is_refused(command: dict[str, Any], field: str) -> None:
    check_refused(InvalidInput, field, command=command)


def test_input_and_command_cannot_both_be_meant() -> None:
    check_refused(InvalidInput, "input", command={"resume": 1}, input={"n": 1})
    check_refused(InvalidInput, "input", command={"resume": 1}, input=[])
    nothing: list[Any] = [None, {}]
    for empty in nothing:
        assert kwargs(command={"resume": 1}, input=empty) == RunKwargs(command={"resume": 1})


# ---- Checkpoints.

PLACE = {"checkpoint_id": "c", "checkpoint_ns": "", "checkpoint_map": {"": "c"}}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"checkpoint_id": "c"}, {"checkpoint_id": "c"}),
        ({"checkpoint": PLACE}, PLACE),
        ({"checkpoint": {**PLACE, "thread_id": "t"}}, PLACE),
        ({"checkpoint": PLACE, "checkpoint_id": "c"}, PLACE),
        ({"config": {"configurable": {"checkpoint_id": "c"}}}, {"checkpoint_id": "c"}),
        ({"checkpoint": {"checkpoint_ns": "sub:1"}}, {"checkpoint_ns": "sub:1"}),
        ({"checkpoint": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": None}}, None),
        ({"checkpoint": {}}, None),
        ({"checkpoint": {"checkpoint_map": None}}, None),
    ],
)
def test_a_checkpoint_can_be_named_in_each_way(said: dict[str, Any], meant: Any) -> None:
    assert kwargs(**said).checkpoint == meant


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"checkpoint": {"thread_id": "other", "checkpoint_id": "c"}}, "checkpoint.thread_id"),
        ({"checkpoint": {"checkpoint_id": "c"}, "checkpoint_id": "d"}, "checkpoint_id"),
        ({"checkpoint": {"checkpoint_id": 3}}, "checkpoint.checkpoint_id"),
        ({"checkpoint": {"checkpoint_ns": []}}, "checkpoint.checkpoint_ns"),
        ({"checkpoint": {"checkpoint_map": "x"}}, "checkpoint.checkpoint_map"),
        ({"checkpoint": {"id": "c"}}, "checkpoint.id"),
        ({"checkpoint_id": "c", "thread_id": None}, "checkpoint_id"),
    ],
)
def test_a_checkpoint_that_cannot_be_meant_is_refused(said: dict[str, Any], field: str) -> None:
    check_refused(InvalidInput, field, **said)


# ---- How it is executed.


def test_every_mode_can_be_streamed_once() -> None:
    assert kwargs(stream_mode="updates").stream_mode == ("updates",)
    assert kwargs(stream_mode=[*STREAM_MODES, *STREAM_MODES]).stream_mode == STREAM_MODES
    check_refused(InvalidInput, "stream_mode", stream_mode=[])
    check_refused(InvalidInput, "stream_mode", stream_mode=["values", "vaules"])
    for mode in ("tools", "lifecycle"):
        check_refused(NotSupported, "stream_mode", stream_mode=["values", mode])


def test_durability_can_be_said_in_two_ways_but_once() -> None:
    for durability in ("sync", "async", "exit"):
        assert kwargs(durability=durability).durability == durability
    assert kwargs(checkpoint_during=True).durability == "async"
    assert kwargs(checkpoint_during=False).durability == "exit"
    check_refused(InvalidInput, "durability", durability="always")
    check_refused(InvalidInput, "checkpoint_during", checkpoint_during=True, durability="async")


@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
def test_a_run_can_stop_at_nodes(when: str) -> None:
    for said, meant in [("*", "*"), (["*"], "*"), (["a", "b"], ("a", "b")), ([], None), (None, None)]:
        assert getattr(kwargs(**{when: said}), when) == meant
    check_refused(InvalidInput, when, **{when: "a"})
    check_refused(InvalidInput, when, **{when: [1]})


def test_a_thread_of_a_run_alone_goes_or_stays() -> None:
    assert kwargs(thread_id=None, on_completion="keep").on_completion is Completion.KEEP
    assert kwargs(thread_id=None, on_completion="delete").on_completion is Completion.DELETE
    kwargs(on_completion="keep")
    check_refused(InvalidInput, "on_completion", on_completion="delete")
    check_refused(InvalidInput, "on_completion", thread_id=None, on_completion="hide")


def test_a_trace_can_be_named() -> None:
    tracer = {"project_name": "p", "example_id": "e"}
    assert kwargs(langsmith_tracer=tracer).tracer == tracer
    assert kwargs(langsmith_tracer={"project_name": None}).tracer is None
    check_refused(InvalidInput, "langsmith_tracer.project_name", langsmith_tracer={"project_name": 3})
    check_refused(InvalidInput, "langsmith_tracer.name", langsmith_tracer={"name": "p"})


def test_what_this_release_does_not_do_is_refused_by_name() -> None:
    check_refused(NotSupported, "webhook", webhook="https://example.org")
    check_refused(NotSupported, "feedback_keys", feedback_keys=["thumbs"])
    assert kwargs(feedback_keys=[], webhook=None) == RunKwargs()


# ---- The config, and what of it may be kept.


@pytest.mark.parametrize(
    "config",
    [
        {"tags": ["a"], "metadata": {"m": 1}, "run_name": "r", "max_concurrency": 1, "recursion_limit": 1},
        {"configurable": {"model": "m", "user_id": "u", "nested": {"password": "kept as it is"}}},
        {},
    ],
)
def test_a_plain_config_is_kept_as_it_is(config: dict[str, Any]) -> None:
    assert split_config(config) == (config, {})


def test_what_is_null_in_a_config_is_not_said() -> None:
    assert split_config({"tags": None, "configurable": None, "recursion_limit": None}) == ({}, {})


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"callbacks": []}, "config.callbacks"),
        ({"recursionLimit": 5}, "config.recursionLimit"),
        *[({"recursion_limit": value}, "config.recursion_limit") for value in (0, -1, 2.5, "9", True)],
        ({"max_concurrency": 0}, "config.max_concurrency"),
        ({"tags": "a"}, "config.tags"),
        ({"tags": [1]}, "config.tags"),
        ({"metadata": []}, "config.metadata"),
        ({"configurable": "x"}, "config.configurable"),
        ({"run_name": 1}, "config.run_name"),
    ],
)
def test_a_config_of_another_shape_is_refused(config: dict[str, Any], field: str) -> None:
    check_refused(InvalidInput, field, config=config)


def test_what_names_a_credential_is_kept_apart_and_what_is_the_servers_is_dropped() -> None:
    configurable = {
        **{"model": "m", "api_key": "1", "openai_api_key": "2", "accessToken": "3", "_hidden": "4"},
        **{"thread_id": "t", "run_id": "r", "graph_id": "g", "assistant_id": "a"},
        **{"checkpoint_id": "c", "checkpoint_ns": "n", "checkpoint_map": {}},
        **{"langgraph_auth_user": "u", "langgraph_auth_permissions": [], "__pregel_store": "s"},
    }
    found, private = kwargs_of(request(config={"configurable": configurable, "tags": ["t"]}))
    assert found.config == {"configurable": {"model": "m"}, "tags": ["t"]}
    assert private == {"api_key": "1", "openai_api_key": "2", "accessToken": "3", "_hidden": "4"}


keys = st.text(max_size=12) | st.sampled_from(["thread_id", "__x", "token", "api_key", "model", "_a"])


@given(st.dictionaries(keys, st.integers(), max_size=8))
def test_every_key_of_configurable_has_one_place(configurable: dict[str, int]) -> None:
    public, private = split_config({"configurable": configurable})
    shown = public.get("configurable", {})
    assert not any(is_private(key) or is_servers(key) for key in shown)
    assert {**shown, **private} == {key: value for key, value in configurable.items() if not is_servers(key)}
    assert not set(shown) & set(private)


def test_headers_are_chosen_by_patterns() -> None:
    headers = {"X-User-Id": "u", "x-tenant": "t", "Authorization": "secret", "x-api-key": "k"}
    chosen = chosen_headers(headers, includes=("x-*", "authorization"), excludes=("X-Api-*",))
    assert chosen == {"x-user-id": "u", "x-tenant": "t", "authorization": "secret"}
    assert chosen_headers(headers, includes=(), excludes=()) == {}


# ---- How a request is kept.


def test_a_request_survives_being_kept() -> None:
    said = request(
        input={"n": 1},
        command=None,
        config={"configurable": {"model": "m", "token": "secret"}, "tags": ["a"]},
        context={"jwt": "secret"},
        metadata={"m": 1},
        stream_mode=["values", "custom"],
        stream_subgraphs=True,
        interrupt_before=["a"],
        interrupt_after="*",
        multitask_strategy="reject",
        durability="exit",
        langsmith_tracer={"project_name": "p"},
    )
    public, private = said.to_json()
    assert "secret" not in str(public)
    assert private == {"context": {"jwt": "secret"}, "configurable": {"token": "secret"}}
    again = RunRequest.from_json(public, private)
    assert kwargs_of(again) == kwargs_of(said)
    assert (again.context, again.metadata, again.thread_id) == (said.context, said.metadata, "t")
    assert again.to_json() == (public, private)


def test_a_request_that_says_nothing_is_kept_as_hardly_anything() -> None:
    assert RunRequest(assistant_id="a").to_json() == ({"assistant_id": "a"}, {})
