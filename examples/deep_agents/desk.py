"""Where people talk to a deep agent, whose model is played from a script: nothing here asks a network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from typing_extensions import override

from stateroom import SqliteStore
from stateroom.files import CompositeBackend, StateBackend, StoreBackend, create_deep_agent

ASSISTANT = "scribe"
"""Whose files these are: they are stored under ``("scribe", "filesystem")``."""


class Desk:
    """One agent, who forgets what is not stored: for every conversation the store is opened anew.

    ``prompt`` is what the agent is told of its memory. ``as_factory`` gives Deep Agents a function that
    makes the backend, instead of the backend; ``asynchronous`` asks with ``ainvoke``.
    """

    def __init__(self, path: Path, *, as_factory: bool = False, asynchronous: bool = False) -> None:
        self.path = path
        self._backend = routed if as_factory else routed(None)
        self._asynchronous = asynchronous
        self._threads = InMemorySaver()

    def talk(self, thread: str, prompt: str, says: str, *turns: AIMessage) -> str:
        """Say something to the agent, which then takes these turns; return its last words."""
        with SqliteStore(self.path) as store:
            agent = create_deep_agent(
                ScriptedModel(turns=list(turns)),
                system_prompt=prompt,
                backend=self._backend,
                store=store,
                checkpointer=self._threads,
            )
            asked: Any = {"messages": [("user", says)]}
            config: Any = {"configurable": {"thread_id": thread, "assistant_id": ASSISTANT}}
            if self._asynchronous:
                answer = asyncio.run(agent.ainvoke(asked, config))
            else:
                answer = agent.invoke(asked, config)
        last: BaseMessage = answer["messages"][-1]
        return last.text


def routed(config: Any) -> CompositeBackend:
    """Return a file system of which only ``/memories/`` outlives the thread."""
    return CompositeBackend(StateBackend(config), {"/memories/": StoreBackend(config)})


def use(tool: str, **arguments: Any) -> AIMessage:
    """Return a turn that calls a tool."""
    return AIMessage(
        "", tool_calls=[{"name": tool, "args": arguments, "id": f"{tool}-1", "type": "tool_call"}]
    )


def say(text: str) -> AIMessage:
    """Return a turn that says something; ``{}`` in it is what the last tool has answered."""
    return AIMessage(text)


class ScriptedModel(BaseChatModel):
    """A chat model that takes the turns that it is given, where yours would be."""

    turns: list[AIMessage]

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ScriptedModel:
        """Take tools as any model for agents does."""
        return self

    @override
    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        turn = self.turns.pop(0)
        if "{}" in turn.text:
            turn = AIMessage(turn.text.replace("{}", messages[-1].text))
        return ChatResult(generations=[ChatGeneration(message=turn)])

    @property
    @override
    def _llm_type(self) -> str:
        return "scripted"
