"""The Agent2Agent protocol: assistants as agents, to the official client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, Final, cast

import httpx
import pytest
from a2a.client import Client, ClientConfig
from a2a.client.client_factory import create_client
from a2a.helpers.proto_helpers import (
    get_artifact_text,
    get_data_parts,
    get_message_text,
    new_data_message,
    new_text_message,
)
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import InvalidParamsError, TaskNotCancelableError, TaskNotFoundError
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph

from stateroom.api import a2a_tasks
from stateroom.boot.compose import Server
from stateroom.settings import Settings
from tests.server.auths import as_user, owners
from tests.server.conftest import LIMITS, PATIENCE, Running, StartServer, eventually, run_in_thread
from tests.server.graphs import WORDS, Chat

USER: Final = a2a.Role.ROLE_USER
COMPLETED: Final = a2a.TaskState.TASK_STATE_COMPLETED
WAITING: Final = a2a.TaskState.TASK_STATE_INPUT_REQUIRED
CANCELED: Final = a2a.TaskState.TASK_STATE_CANCELED


def _says(text: str) -> Any:
    async def node(_: Chat) -> dict[str, Any]:
        return {"messages": [AIMessage(text)]}

    return node


twice = (
    StateGraph(Chat)
    .add_node("first", _says("Let me see."))
    .add_node("second", _says("Done."))
    .add_edge(START, "first")
    .add_edge("first", "second")
    .compile()
)


@pytest.fixture(scope="module")
def agents(new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """Return a server for what no storage makes a difference to."""
    settings = new_settings("sqlite", descriptions={"echo": "Says it again."})
    running = run_in_thread(Server(settings, graphs={"twice": twice}))
    yield running
    running.close()


@asynccontextmanager
async def speaking(
    url: str, agent: str, *, headers: Mapping[str, str] | None = None, **config: Any
) -> AsyncIterator[Client]:
    """Yield the official client of an agent, which it knows by its card."""
    async with httpx.AsyncClient(timeout=PATIENCE, headers=headers) as http:
        yield await create_client(f"{url}/a2a/{agent}", ClientConfig(httpx_client=http, **config))


def text(words: str, **where: Any) -> a2a.Message:
    return new_text_message(words, role=USER, **where)


def data(value: dict[str, Any], **where: Any) -> a2a.Message:
    return new_data_message(value, role=USER, **where)


def both(words: str, value: dict[str, Any]) -> a2a.Message:
    message = text(words)
    message.parts.extend(data(value).parts)
    return message


async def events(client: Client, message: a2a.Message) -> list[Any]:
    """Send a message; return everything that comes, each without what wraps it."""
    stream = client.send_message(a2a.SendMessageRequest(message=message))
    return [getattr(each, str(each.WhichOneof("payload"))) async for each in stream]


async def sent(client: Client, message: a2a.Message) -> a2a.Task:
    """Send a message with a client that does not stream; return the task."""
    (task,) = await events(client, message)
    return cast("a2a.Task", task)


async def got(client: Client, task: a2a.Task, **options: Any) -> a2a.Task:
    return await client.get_task(a2a.GetTaskRequest(id=task.id, **options))


def words(task: a2a.Task) -> list[tuple[bool, str]]:
    """Return the history: whether the user said it, and what."""
    return [(each.role == USER, get_message_text(each)) for each in task.history]


# ---- Messages that are sent.


async def test_conversation(url: str) -> None:
    async with speaking(url, "chat", streaming=False) as client:
        first = await sent(client, text("Hello"))
        assert first.status.state == COMPLETED
        assert first.status.timestamp.seconds > 0
        (artifact,) = first.artifacts
        said = "".join(WORDS)
        assert (artifact.name, get_artifact_text(artifact)) == ("answer", said)
        assert words(first) == [(True, "Hello"), (False, said)]
        second = await sent(client, text("And now?", context_id=first.context_id, task_id=first.id))
        assert (second.context_id, second.id != first.id) == (first.context_id, True)
        assert words(second) == [(True, "And now?"), (False, said)]
        assert await got(client, first) == first
        assert await got(client, second) == second
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
        state = (await http.get(f"/threads/{first.context_id}/state")).json()
        assert [each["content"] for each in state["values"]["messages"]] == ["Hello", said, "And now?", said]
        runs = (await http.get(f"/threads/{first.context_id}/runs")).json()
        assert [run["run_id"] for run in runs] == [second.id, first.id]


async def test_history_as_long_as_it_is_wanted(agents: Running) -> None:
    async with speaking(agents.url, "chat", streaming=False) as client:
        task = await sent(client, text("Hello"))
        for length, kept in ((0, []), (1, words(task)[1:]), (2, words(task)), (9, words(task))):
            assert words(await got(client, task, history_length=length)) == kept


async def test_data_is_input_beside_the_messages(agents: Running) -> None:
    async with speaking(agents.url, "slow", streaming=False) as client:
        task = await sent(client, both("Go", {"steps": 2, "delay": 0}))
        (values,) = get_data_parts(task.artifacts[0].parts)
        assert (values["n"], values["log"]) == (2, ["tick1", "tick2"])
        assert words(task) == [(True, "Go")]


async def test_client_that_asks_later(agents: Running) -> None:
    async with speaking(agents.url, "slow", streaming=False, polling=True) as client:
        task = await sent(client, data({"steps": 3, "delay": 0.05}))
        assert task.status.state in (
            a2a.TaskState.TASK_STATE_SUBMITTED,
            a2a.TaskState.TASK_STATE_WORKING,
        )

        async def is_done() -> bool:
            return (await got(client, task)).status.state == COMPLETED

        await eventually(is_done)


async def test_failure(agents: Running) -> None:
    async with speaking(agents.url, "fail", streaming=False) as client:
        task = await sent(client, text("Hello"))
        assert task.status.state == a2a.TaskState.TASK_STATE_FAILED
        assert get_message_text(task.status.message) == "ValueError: boom from node"
        assert (list(task.artifacts), words(task)) == ([], [(True, "Hello")])


# ---- Questions.


@pytest.mark.parametrize("named", [("task_id",), ("context_id",), ("task_id", "context_id")])
async def test_question_is_answered(url: str, named: tuple[str, ...]) -> None:
    async with speaking(url, "hitl", streaming=False) as client:
        asked = await sent(client, text("Hello"))
        assert asked.status.state == WAITING
        assert get_data_parts(asked.status.message.parts) == [{"question": "ok?"}]
        assert list(asked.artifacts) == []
        assert await got(client, asked) == asked
        where = {"task_id": asked.id, "context_id": asked.context_id}
        answered = await sent(client, text("yes", **{name: where[name] for name in named}))
        assert (answered.id, answered.context_id) == (asked.id, asked.context_id)
        assert answered.status.state == COMPLETED
        (values,) = get_data_parts(answered.artifacts[0].parts)
        assert values == {"answer": "yes", "log": ["before", "answered yes"]}
        assert await got(client, asked) == answered


async def test_answer_of_data(agents: Running) -> None:
    async with speaking(agents.url, "hitl") as client:
        asked = (await events(client, text("Hello")))[0]
        *_, final = await events(client, data({"yes": True}, task_id=asked.id))
        assert final.status.state == COMPLETED
        (values,) = get_data_parts((await got(client, asked)).artifacts[0].parts)
        assert values["answer"] == {"yes": True}


async def test_several_questions_at_once(agents: Running) -> None:
    async with speaking(agents.url, "parallel", streaming=False) as client:
        asked = await sent(client, text("Hello"))
        ids = [part.metadata["interruptId"] for part in asked.status.message.parts]
        questions = get_data_parts(asked.status.message.parts)
        given = {name: question["question"] for name, question in zip(ids, questions, strict=True)}
        answered = await sent(client, data(given, task_id=asked.id))
        assert (answered.id, answered.status.state) == (asked.id, COMPLETED)
        (values,) = get_data_parts(answered.artifacts[0].parts)
        assert sorted(values["log"]) == ["left left?", "right right?"]


async def test_of_answers_at_once_one_counts(agents: Running) -> None:
    async with (
        speaking(agents.url, "hitl", streaming=False, polling=True) as client,
        speaking(agents.url, "hitl", streaming=False) as waiting,
    ):
        asked = await sent(waiting, text("Hello"))
        answers = (sent(client, text(word, context_id=asked.context_id)) for word in ("yes", "no"))
        found = await asyncio.gather(*answers, return_exceptions=True)
        same = [task for task in found if isinstance(task, a2a.Task) and task.id == asked.id]
        assert len(same) == 1, found


@pytest.mark.parametrize("at_once", [1, 2, 100])
async def test_task_whose_question_was_answered_long_ago(
    agents: Running, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(a2a_tasks, "_AT_ONCE", at_once)
    async with speaking(agents.url, "hitl", streaming=False) as client:
        asked = await sent(client, text("Hello"))
        where = {"context_id": asked.context_id}
        answered = await sent(client, text("yes", **where))
        later = await sent(client, text("Hello again", **where))
        assert (later.id != asked.id, later.status.state) == (True, WAITING)
        assert await got(client, asked) == answered
        assert await got(client, later) == later


async def test_task_whose_frames_are_no_longer_kept(start_server: StartServer) -> None:
    server = start_server(limits=replace(LIMITS, retained_runs=0))
    async with (
        speaking(server.url, "hitl", streaming=False) as hitl,
        speaking(server.url, "chat", streaming=False) as chat,
    ):
        asked, said = await sent(hitl, text("Hello")), await sent(chat, text("Hello"))

        def are_gone() -> bool:
            events = server.server.parts.storage.events
            events.sweep()
            return not any(events.last(task.id) for task in (asked, said))

        await eventually(are_gone)
        assert await got(hitl, asked) == asked
        assert await got(chat, said) == said


# ---- Tasks that are stopped, and streamed.


async def test_task_is_stopped(agents: Running) -> None:
    async with speaking(agents.url, "slow", streaming=False, polling=True) as client:
        task = await sent(client, both("Go", {"steps": 1000, "delay": 0.02}))
        stopped = await client.cancel_task(a2a.CancelTaskRequest(id=task.id))
        assert (stopped.id, stopped.status.state) == (task.id, CANCELED)
        assert words(stopped) == [(True, "Go")]
        assert await got(client, task) == stopped
        with pytest.raises(TaskNotCancelableError, match="canceled"):
            await client.cancel_task(a2a.CancelTaskRequest(id=task.id))


async def test_task_that_asks_is_not_stopped(agents: Running) -> None:
    async with speaking(agents.url, "hitl", streaming=False) as client:
        asked = await sent(client, text("Hello"))
        with pytest.raises(TaskNotCancelableError, match="input-required"):
            await client.cancel_task(a2a.CancelTaskRequest(id=asked.id))


def check_order(found: list[Any]) -> None:
    """Check that the task comes first, and one final state last."""
    kinds = [type(each) for each in found]
    assert kinds[0] is a2a.Task
    assert kinds[-1] is a2a.TaskStatusUpdateEvent
    assert {each.task_id for each in found[1:]} == {found[0].id}
    assert {each.context_id for each in found} == {found[0].context_id}


def artifacts(found: list[Any]) -> list[tuple[bool, bool, str]]:
    """Return what a stream says of artifacts: whether it is added, whether it is the last, and the text."""
    updates = [each for each in found if isinstance(each, a2a.TaskArtifactUpdateEvent)]
    assert len({each.artifact.artifact_id for each in updates}) <= 1
    return [(each.append, each.last_chunk, get_artifact_text(each.artifact)) for each in updates]


async def test_stream_of_tokens(url: str) -> None:
    async with speaking(url, "chat") as client:
        found = await events(client, text("What is the weather?"))
        check_order(found)
        states = [each.status.state for each in found if isinstance(each, a2a.TaskStatusUpdateEvent)]
        assert states == [a2a.TaskState.TASK_STATE_WORKING, COMPLETED]
        first, *rest = WORDS
        told = [(False, False, first), *((True, False, word) for word in rest), (True, True, "")]
        assert artifacts(found) == told
        task = await got(client, found[0])
        assert get_artifact_text(task.artifacts[0]) == "".join(WORDS)
        assert words(task) == [(True, "What is the weather?"), (False, "".join(WORDS))]


async def test_stream_of_messages(agents: Running) -> None:
    async with speaking(agents.url, "twice") as client:
        found = await events(client, text("Hello"))
        assert artifacts(found) == [(False, False, "Let me see."), (False, False, "Done."), (True, True, "")]


async def test_stream_of_a_graph_that_streams_no_message(agents: Running) -> None:
    async with speaking(agents.url, "echo") as client:
        found = await events(client, text("Hello"))
        check_order(found)
        ((append, last, said),) = artifacts(found)
        assert (append, last, said.startswith("echo: ")) == (False, True, True)


async def test_stream_ends_with_a_question(agents: Running) -> None:
    async with speaking(agents.url, "hitl") as client:
        found = await events(client, text("Hello"))
        check_order(found)
        assert found[-1].status.state == WAITING
        assert get_data_parts(found[-1].status.message.parts) == [{"question": "ok?"}]


async def test_task_goes_on_without_its_client_and_is_streamed_again(agents: Running) -> None:
    async with speaking(agents.url, "slow") as client:
        request = a2a.SendMessageRequest(message=data({"steps": 5, "delay": 0.05}))
        async with aclosing(cast("Any", client.send_message(request))) as stream:
            task = (await anext(stream)).task
        again = client.subscribe(a2a.SubscribeToTaskRequest(id=task.id))
        found = [getattr(each, str(each.WhichOneof("payload"))) async for each in again]
        check_order(found)
        assert found[-1].status.state == COMPLETED
        (values,) = get_data_parts((await got(client, task)).artifacts[0].parts)
        assert values["n"] == 5
        once_more = client.subscribe(a2a.SubscribeToTaskRequest(id=task.id))
        ended = [getattr(each, str(each.WhichOneof("payload"))) async for each in once_more]
        assert (ended[0].status.state, ended[-1]) == (COMPLETED, found[-1])


# ---- Whose tasks they are.


async def test_tasks_of_others_are_not_there(start_server: StartServer) -> None:
    server = start_server(auth=owners())
    mine = speaking(server.url, "echo", headers=as_user("u1"), streaming=False)
    theirs = speaking(server.url, "echo", headers=as_user("u2"), streaming=False)
    async with mine as client, theirs as other:
        task = await sent(client, text("Hello"))
        with pytest.raises(TaskNotFoundError):
            await got(other, task)
        with pytest.raises(TaskNotFoundError):
            await other.cancel_task(a2a.CancelTaskRequest(id=task.id))
        with pytest.raises(TaskNotFoundError):
            await sent(other, text("Hello", task_id=task.id))
        with pytest.raises(InvalidParamsError, match="there is no thread"):
            await sent(other, text("Hello", context_id=task.context_id))
        assert await got(client, task) == task
    async with httpx.AsyncClient(base_url=server.url) as nobody:
        for answered in (
            await nobody.post("/a2a/echo", json={}),
            await nobody.get("/a2a/echo/.well-known/agent-card.json"),
        ):
            assert answered.status_code == 401


async def test_tasks_of_another_agent_are_not_there(agents: Running) -> None:
    async with (
        speaking(agents.url, "echo", streaming=False) as echo,
        speaking(agents.url, "chat", streaming=False) as chat,
    ):
        task = await sent(echo, text("Hello"))
        with pytest.raises(TaskNotFoundError, match=task.id):
            await got(chat, task)
