"""A checkpointer of the application's own, through a server: what it can do is done, the rest is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, StateGraph
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError

from stateroom.boot.compose import Server
from stateroom.contract.runs import RunQuery
from stateroom.engine import leases
from stateroom.errors import Fenced, NotFound, ThreadBusy, Unavailable
from stateroom.model.run import Attempt, CancelAction
from stateroom.savers.attempts import ATTEMPT_KEY, Resting, bound
from stateroom.savers.sqlite import SqliteSaver
from stateroom.service.scope import Scope
from stateroom.settings import Settings
from tests.server.checkpointers import FOLDER
from tests.server.conftest import PATIENCE, Running, StartServer, eventually, run_in_thread
from tests.server.graphs import State

FILE = Path(__file__).with_name("checkpointers.py")
SLOW: Any = {"steps": 1000, "delay": 0.02}
HI: Any = {"messages": ["hi"]}


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the checkpointers a folder for their files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, str(tmp_path_factory.mktemp("checkpointers")))
        yield


@pytest.fixture(scope="module", params=["memory", "theirs", "ours"])
def checkpointer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def running(checkpointer: str, new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """A server for each checkpointer, instead of the one that all tests share."""
    settings = new_settings("sqlite", checkpointer_path=f"{FILE}:{checkpointer}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leases, "LINGER", 0.05)
        running = run_in_thread(Server(settings))
        yield running
        running.close()


@pytest.fixture
async def thread_id(client: Any) -> str:
    return str((await client.threads.create())["thread_id"])


@pytest.fixture
def kept(running: Running) -> Callable[[str], int]:
    """Return what counts the checkpoints of a thread, all of which the application's checkpointer has."""
    storage: Any = running.server.parts.storage
    own = SqliteSaver.over(storage)

    def count(thread_id: str) -> int:
        config: Any = {"configurable": {"thread_id": thread_id}}
        assert not list(own.list(config)), "the storage's own tables have nothing"
        return len(list(running.server.saver.list(config)))

    return count


async def values(client: Any, thread_id: str) -> Any:
    return (await client.threads.get_state(thread_id))["values"]


async def ids(client: Any, thread_id: str) -> list[Any]:
    return [each["checkpoint"]["checkpoint_id"] for each in await client.threads.get_history(thread_id)]


async def begun(client: Any, thread_id: str, log: Path, **said: Any) -> str:
    """Start a run that goes on, and return its id once it has taken steps."""
    given = {"input": {**SLOW, "log_file": str(log)}, **said}
    run = await client.runs.create(thread_id, "slow", **given)
    await eventually(lambda: log.exists() and log.read_text().count("\n") > 2)
    return str(run["run_id"])


# ---- what every checkpointer does


async def test_a_conversation_is_kept_in_it(client: Any, thread_id: str, kept: Callable[[str], int]) -> None:
    await client.runs.wait(thread_id, "echo", input=HI)
    run = await client.runs.create(thread_id, "echo", input={"messages": ["again"]})
    await client.runs.join(thread_id, run["run_id"])
    state = await client.threads.get_state(thread_id)
    assert len(state["values"]["messages"]) == 4
    assert state["metadata"]["run_id"] == run["run_id"]
    assert (await client.threads.get(thread_id))["values"] == state["values"]
    assert kept(thread_id) == len(await client.threads.get_history(thread_id)) == 6


async def test_questions_wait_in_it_and_are_answered(client: Any, thread_id: str) -> None:
    asked = await client.runs.wait(thread_id, "hitl", input={"messages": []})
    assert [each["value"] for each in asked["__interrupt__"]] == [{"question": "ok?"}]
    state = await client.threads.get_state(thread_id)
    assert (state["next"], len(state["interrupts"])) == (["ask"], 1)
    answered = await client.runs.wait(thread_id, "hitl", command={"resume": "yes"})
    assert (answered["answer"], answered["log"]) == ("yes", ["before", "answered yes"])


async def test_questions_of_a_subgraph_too(client: Any, thread_id: str) -> None:
    asked = await client.runs.wait(thread_id, "subgraph", input={"messages": []})
    assert asked["__interrupt__"]
    answered = await client.runs.wait(thread_id, "subgraph", command={"resume": "yes"})
    assert answered["answer"] == "yes"


async def test_a_run_forks_and_a_state_is_changed(client: Any, thread_id: str) -> None:
    await client.runs.wait(thread_id, "echo", input=HI)
    first = (await ids(client, thread_id))[0]
    await client.runs.wait(thread_id, "echo", input={"messages": ["one way"]})
    forked = await client.runs.wait(
        thread_id, "echo", input={"messages": ["another"]}, checkpoint={"checkpoint_id": first}
    )
    assert [each for each in forked["messages"] if isinstance(each, str)] == ["hi", "another"]
    await client.threads.update_state(thread_id, {"n": 7}, as_node="echo")
    assert (await values(client, thread_id))["n"] == 7
    assert len(await ids(client, thread_id)) == 3 * 3 + 1


async def test_a_deleted_thread_leaves_nothing(
    client: Any, thread_id: str, kept: Callable[[str], int]
) -> None:
    await client.runs.wait(thread_id, "subgraph", input={"messages": []})
    assert kept(thread_id)
    await client.threads.delete(thread_id)
    assert not kept(thread_id)
    await client.threads.create(thread_id=thread_id, graph_id="subgraph")
    assert not (await values(client, thread_id)), "nothing comes back"
    await client.runs.wait(thread_id, "echo", input=HI)
    await client.threads.prune([thread_id], strategy="delete")
    assert not kept(thread_id)


async def test_one_whose_run_executes_neither(
    client: Any, thread_id: str, kept: Callable[[str], int], running: Running, tmp_path: Path
) -> None:
    await begun(client, thread_id, tmp_path / "log")
    await client.threads.delete(thread_id)
    await eventually(lambda: running.server.worker.executing == 0)
    assert not kept(thread_id)


async def test_a_deletion_that_is_cut_short_can_be_done_again(
    client: Any,
    thread_id: str,
    kept: Callable[[str], int],
    running: Running,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await client.runs.wait(thread_id, "echo", input=HI)
    server = running.server

    def unreachable(*_: object, **__: object) -> bool:
        raise Unavailable("cut")

    with monkeypatch.context() as patch:
        patch.setattr(type(server.parts.storage.threads), "delete", unreachable)
        with pytest.raises(Unavailable):
            server.parts.threads.remove(thread_id)
    assert not kept(thread_id)
    assert await client.threads.get(thread_id)
    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)


async def test_threads_that_were_made_for_a_run_go_with_it(
    client: Any, kept: Callable[[str], int], running: Running
) -> None:
    seen: list[str] = []
    async for part in client.runs.stream(None, "slow", input={"steps": 2}, stream_mode="checkpoints"):
        if part.event == "checkpoints":
            seen.append(part.data["config"]["configurable"]["thread_id"])
    assert seen
    await eventually(lambda: running.server.parts.storage.threads.get(seen[0]) is None)
    await eventually(lambda: not kept(seen[0]))


async def test_an_expired_thread_goes_and_a_used_one_stays(
    client: Any, kept: Callable[[str], int], running: Running
) -> None:
    threads: Any = running.server.parts.storage.threads
    brief = (await client.threads.create(ttl=1e-4))["thread_id"]
    await client.runs.wait(brief, "echo", input=HI)
    await eventually(lambda: brief in [each.thread_id for each in threads.expired()])
    expired = threads.get(brief)
    assert not running.server.retention._apply(await _used(client, brief, expired))[0]
    assert kept(brief)
    await eventually(lambda: brief in [each.thread_id for each in threads.expired()])
    running.server.retention.sweep()
    assert threads.get(brief) is None
    assert not kept(brief)


async def _used(client: Any, thread_id: str, thread: Any) -> Any:
    """Return a thread as it was before somebody used it."""
    await client.threads.update(thread_id, metadata={"used": True})
    return thread


async def test_who_may_not_write_is_refused(
    client: Any, thread_id: str, running: Running, tmp_path: Path
) -> None:
    def put(named: str, **configurable: Any) -> None:
        config: Any = {"configurable": {"thread_id": named, "checkpoint_ns": "", **configurable}}
        put: Any = running.server.saver.put
        put(config, empty_checkpoint(), {"source": "loop", "step": 1, "parents": {}}, {})

    run_id = await begun(client, thread_id, tmp_path / "log")
    with pytest.raises(Fenced):
        put(thread_id, **{ATTEMPT_KEY: Attempt(run_id, thread_id, 0)})
    with pytest.raises(ThreadBusy), bound(Resting(thread_id)):
        put(thread_id)
    with pytest.raises(NotFound):
        put("nobody's")
    await client.runs.cancel(thread_id, run_id, wait=True)
    with bound(Resting(thread_id)):
        put(thread_id)


async def test_no_secret_reaches_it(client: Any, thread_id: str, running: Running) -> None:
    config: Any = {"configurable": {"api_key": "hush-1", "plain": "said-1"}}
    await client.runs.wait(thread_id, "hitl", input={"messages": []}, config=config)
    await client.runs.wait(thread_id, "hitl", command={"resume": "x"}, config=config)
    here: Any = {"configurable": {"thread_id": thread_id}}
    found = list(running.server.saver.list(here))
    assert found
    assert all(each.metadata["plain"] == "said-1" for each in found)  # type: ignore[typeddict-item]
    assert "hush-1" not in repr(found)


# ---- what some do


async def refused(call: Any, method: str) -> None:
    with pytest.raises(UnprocessableEntityError, match=f"it has no {method}") as caught:
        await call
    assert caught.value.code == "not_supported"


async def test_a_thread_is_copied_or_not(
    client: Any, thread_id: str, kept: Callable[[str], int], checkpointer: str, running: Running
) -> None:
    await client.runs.wait(thread_id, "echo", input=HI)
    before = running.server.parts.storage.threads
    if checkpointer != "ours":
        many = await client.threads.count()
        await refused(client.threads.copy(thread_id), "acopy_thread")
        assert await client.threads.count() == many
        return
    copy: Any = await client.threads.copy(thread_id)
    assert await values(client, copy["thread_id"]) == await values(client, thread_id)
    assert kept(copy["thread_id"]) == kept(thread_id)
    made = before.get(copy["thread_id"])
    assert made is not None
    assert made.expires_at is None


async def test_a_thread_is_pruned_or_not(
    client: Any, thread_id: str, kept: Callable[[str], int], checkpointer: str
) -> None:
    await client.runs.wait(thread_id, "echo", input=HI)
    latest: Any = {"ttl": 5, "strategy": "keep_latest"}
    if checkpointer != "ours":
        await refused(client.threads.prune([thread_id], strategy="keep_latest"), "aprune")
        await refused(client.threads.create(ttl=latest), "aprune")
        await refused(client.threads.update(thread_id, metadata={}, ttl=latest), "aprune")
        return
    assert (await client.threads.prune([thread_id], strategy="keep_latest"))["pruned_count"] == 1
    assert kept(thread_id) == 1
    assert await client.threads.create(ttl=latest)


async def test_what_a_thread_takes_is_told_or_not(client: Any, thread_id: str, checkpointer: str) -> None:
    await client.runs.wait(thread_id, "echo", input=HI)
    asked: Any = client.http.get(f"/threads/{thread_id}/storage")
    if checkpointer != "ours":
        await refused(asked, "astorage")
        return
    assert "messages" in (await asked)["channel_values"]["by_channel"]


@pytest.mark.parametrize("how", ["cancel", "cancel_many", "multitask"])
async def test_a_run_is_rolled_back_or_not(
    client: Any,
    thread_id: str,
    kept: Callable[[str], int],
    checkpointer: str,
    how: str,
    tmp_path: Path,
) -> None:
    await client.runs.wait(thread_id, "echo", input=HI)
    before, many = await values(client, thread_id), kept(thread_id)
    run_id = await begun(client, thread_id, tmp_path / "log")

    def ask() -> Any:
        if how == "cancel":
            return client.runs.cancel(thread_id, run_id, action="rollback")
        if how == "cancel_many":
            return client.runs.cancel_many(thread_id=thread_id, run_ids=[run_id], action="rollback")
        return client.runs.create(thread_id, "echo", input=HI, multitask_strategy="rollback")

    if checkpointer != "ours":
        await refused(ask(), "adelete_for_runs")
        assert (await client.runs.get(thread_id, run_id))["status"] == "running"
        await client.runs.cancel(thread_id, run_id, wait=True)
        return
    second: Any = await ask()
    if how == "multitask":
        await client.runs.join(thread_id, second["run_id"])
        assert await values(client, thread_id) == {**before, "messages": before["messages"] * 2}
        assert kept(thread_id) == 2 * many
    else:
        await eventually(lambda: kept(thread_id) == many)
        assert await values(client, thread_id) == before
    runs = await eventually(lambda: client.runs.list(thread_id, status="success"))
    assert run_id not in [run["run_id"] for run in runs]


async def test_a_run_that_goes_on_from_a_checkpoint_is_not(
    client: Any, thread_id: str, checkpointer: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    start: Any = {**SLOW, "log_file": str(log)}
    await client.runs.wait(thread_id, "slow", input=start, interrupt_after=["tick"])
    run_id = await begun(client, thread_id, log, input=None)
    missing = "cannot take anything back" if checkpointer == "ours" else "it has no adelete_for_runs"
    with pytest.raises(UnprocessableEntityError, match=missing):
        await client.runs.cancel(thread_id, run_id, action="rollback")
    assert (await client.runs.get(thread_id, run_id))["status"] == "running"
    await client.runs.cancel(thread_id, run_id, wait=True)


async def test_a_roll_back_that_nobody_refused_interrupts(
    client: Any,
    thread_id: str,
    kept: Callable[[str], int],
    checkpointer: str,
    running: Running,
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    runs = running.server.parts.storage.runs

    async def interrupted(run_id: str) -> None:
        many = kept(thread_id)
        # As if it had been asked for when the server had another checkpointer.
        runs.cancel(RunQuery(run_ids=[run_id]), CancelAction.ROLLBACK)
        await client.runs.join(thread_id, run_id)
        assert (await client.runs.get(thread_id, run_id))["status"] == "interrupted"
        assert kept(thread_id) >= many > 0

    start: Any = {**SLOW, "log_file": str(log)}
    await client.runs.wait(thread_id, "slow", input=start, interrupt_after=["tick"])
    await interrupted(await begun(client, thread_id, log, input=None))
    if checkpointer != "ours":
        await interrupted(await begun(client, thread_id, tmp_path / "another"))


async def test_a_cron_that_rolls_back_is_refused_at_once(
    client: Any, thread_id: str, checkpointer: str
) -> None:
    def cron() -> Any:
        return client.crons.create_for_thread(
            thread_id, "echo", schedule="0 0 1 1 *", multitask_strategy="rollback"
        )

    if checkpointer == "ours":
        assert await cron()
    else:
        await refused(cron(), "adelete_for_runs")


# ---- beside and after the server


@pytest.mark.parametrize("checkpointer", ["theirs"])
async def test_a_graph_that_blocks_its_loop_blocks_no_checkpoint(
    start_server: StartServer, checkpointer: str
) -> None:
    begun, go = threading.Event(), threading.Event()

    async def stand(_: State) -> dict[str, Any]:
        begun.set()
        go.wait(PATIENCE)
        return {"n": 1}

    node: Any = stand
    stuck = StateGraph(State).add_node("stand", node).add_edge(START, "stand").compile()
    client = start_server(checkpointer_path=f"{FILE}:{checkpointer}", objects={"stuck": stuck}).client
    thread_id = client.threads.create()["thread_id"]
    run = client.runs.create(thread_id, "stuck", input=HI)
    try:
        await eventually(begun.is_set)
        other = client.threads.create()["thread_id"]
        client.runs.wait(other, "echo", input=HI)
        assert len(client.threads.get_state(other)["values"]["messages"]) == 2
    finally:
        go.set()
    assert client.runs.join(thread_id, run["run_id"])["n"] == 1


@pytest.mark.parametrize("checkpointer", ["theirs", "ours"])
async def test_what_it_keeps_outlives_the_server(
    start_server: StartServer, checkpointer: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    running = start_server(checkpointer_path=f"{FILE}:{checkpointer}")
    client = running.client
    thread_id = client.threads.create()["thread_id"]
    client.runs.wait(thread_id, "echo", input=HI)
    given = {"steps": 20, "delay": 0.03, "log_file": str(log)}
    run = client.runs.create(thread_id, "slow", input=given)
    await eventually(lambda: log.exists() and log.read_text().count("\n") > 2)
    running.close()
    ticks = log.read_text().count("\n")
    assert ticks < 20, "it was handed back"
    again = start_server(settings=running.server.settings).client
    again.runs.join(thread_id, run["run_id"])
    # Each step once: the one who goes on with it has found its own checkpoint.
    assert log.read_text().split("\n")[:-1] == [f"tick {n}" for n in range(1, 21)]
    assert len(again.threads.get_state(thread_id)["values"]["messages"]) == 2


@pytest.mark.parametrize("checkpointer", ["ours"])
async def test_a_run_that_was_handed_back_is_rolled_back_while_it_waits(
    start_server: StartServer, checkpointer: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    running = start_server(checkpointer_path=f"{FILE}:{checkpointer}")
    thread_id = running.client.threads.create()["thread_id"]
    running.client.runs.wait(thread_id, "echo", input=HI)
    here: Any = {"configurable": {"thread_id": thread_id}}
    before = len(list(running.server.saver.list(here)))
    run = running.client.runs.create(thread_id, "slow", input={**SLOW, "log_file": str(log)})
    await eventually(lambda: log.exists() and log.read_text().count("\n") > 2)
    running.close()
    server = Server(running.server.settings)
    server.open()  # and execute nothing
    try:
        assert len(list(server.saver.list(here))) > before
        server.parts.runs.cancel(run["run_id"], Scope(), action="rollback")
        assert len(list(server.saver.list(here))) == before
    finally:
        server.close()
