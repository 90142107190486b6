"""A deep agent that does what it is told: the last thing that was said to it is a script of tool calls."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from typing_extensions import override

from stateroom.files import CompositeBackend, StateBackend, StoreBackend, create_deep_agent

__all__ = ["graph", "script"]

Call = tuple[str, dict[str, Any]]


def script(*turns: list[Call]) -> dict[str, Any]:
    """Return the input that has the agent make the calls of each turn together, turn after turn."""
    return {"messages": [{"role": "user", "content": json.dumps(turns)}]}


class Obedient(BaseChatModel):
    """A model that makes the calls of the script, turn by turn, and then says what the last one answered."""

    @override
    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    @override
    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        asked = max(place for place, each in enumerate(messages) if isinstance(each, HumanMessage))
        done = sum(isinstance(each, AIMessage) for each in messages[asked:])
        turns = json.loads(messages[asked].text)
        if done < len(turns):
            calls = [
                {"name": name, "args": arguments, "id": f"call-{asked}-{done}-{place}", "type": "tool_call"}
                for place, (name, arguments) in enumerate(turns[done])
            ]
            return _said(AIMessage("", tool_calls=calls))
        return _said(AIMessage(messages[-1].text if isinstance(messages[-1], ToolMessage) else "Done."))

    @property
    @override
    def _llm_type(self) -> str:
        return "obedient"


def _said(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _files(config: Any) -> CompositeBackend:
    return CompositeBackend(StateBackend(config), {"/memories/": StoreBackend(config)})


graph: Any = create_deep_agent(Obedient(), system_prompt="Obey.", backend=_files)
