"""Messages between the Agent2Agent protocol and graphs: what is said to them, and what they have said."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from stateroom.api.spoken import text_of
from stateroom.api.wire.a2a import (
    CONTENT_TYPE,
    INVALID_PARAMS,
    UNSUPPORTED,
    A2ARefused,
    Message,
    Part,
    data_part,
    message_json,
    text_part,
)
from stateroom.engine.frame_names import INTERRUPTS

__all__ = ["MESSAGES", "answer_of", "asked", "input_of", "made", "marker_of", "said", "since"]

MESSAGES: Final = "messages"
"""The key of a graph's input and state under which the conversation is."""

_USERS: Final = ("human", "user", "HumanMessageChunk")
_AGENTS: Final = ("ai", "assistant", "AIMessageChunk")


# ---- what a client says


def input_of(message: Message, fields: Collection[str] | None, message_id: str) -> dict[str, Any]:
    """Return the input for a graph that takes ``fields``: texts as a user's message, data beside it.

    ``fields`` is None for a graph that does not say what it takes.
    """
    if fields is not None and MESSAGES not in fields:
        raise A2ARefused(
            UNSUPPORTED,
            f"the graph's input has no {MESSAGES}, in which a message would reach it; give its state "
            f"{MESSAGES}, or run it by POST /runs",
        )
    texts, data = _texts(message), _data(message, fields)
    if texts:
        data[MESSAGES] = [{"role": "user", "content": "\n".join(texts), "id": message_id}]
    return data


def answer_of(message: Message, interrupt_ids: Collection[str]) -> Any:
    """Return the answer to the questions of some interrupts: a text, or data as it is."""
    texts, data = _texts(message), [each.data for each in message.parts if each.kind == "data"]
    if len(data) > 1 or (data and texts):
        raise A2ARefused(
            INVALID_PARAMS,
            "message.parts answers a question by texts and data; pass texts alone, or one data part",
            "message.parts",
        )
    if len(interrupt_ids) > 1 and not (data and data[0] and set(data[0]) <= set(interrupt_ids)):
        raise A2ARefused(
            INVALID_PARAMS,
            f"message.parts answers one question, but the task asks {len(interrupt_ids)}; pass a data part "
            f"with the answers by their ids, {', '.join(sorted(interrupt_ids))}",
            "message.parts",
        )
    return data[0] if data else "\n".join(texts)


def _texts(message: Message) -> list[str]:
    found = []
    for place, part in enumerate(message.parts):
        _check(part, f"message.parts[{place}]")
        if part.kind == "text" and part.text is not None:
            found.append(part.text)
    return found


def _check(part: Part, place: str) -> None:
    if part.kind == "file":
        raise A2ARefused(
            CONTENT_TYPE, f"{place} is a file; this agent takes text and data, so leave it out", place
        )
    if getattr(part, part.kind) is None:
        raise A2ARefused(INVALID_PARAMS, f"{place}.{part.kind} is missing; give it", f"{place}.{part.kind}")


def _data(message: Message, fields: Collection[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, part in enumerate(message.parts):
        for key, value in (part.data or {}).items():
            field = f"message.parts[{place}].data.{key}"
            if key == MESSAGES:
                raise A2ARefused(INVALID_PARAMS, f"{field} is made of the texts; leave it out", field)
            if fields is not None and key not in fields:
                known = ", ".join(sorted(set(fields) - {MESSAGES})) or "nothing else"
                why = f"{field} is not in the graph's input, which has {known}; leave it out"
                raise A2ARefused(INVALID_PARAMS, why, field)
            if key in found:
                raise A2ARefused(INVALID_PARAMS, f"{field} is given twice; pass it once", field)
            found[key] = value
    return found


# ---- what a graph has said


def marker_of(graph_input: Any) -> str | None:
    """Return the id of the message that an input begins with; None if there is none."""
    messages = graph_input.get(MESSAGES) if isinstance(graph_input, Mapping) else None
    first = messages[0] if isinstance(messages, list) and messages else None
    found = first.get("id") if isinstance(first, Mapping) else None
    return found if isinstance(found, str) else None


def since(values: Any, marker: str | None) -> list[Any]:
    """Return the messages of a state from the one with the id on, all of them where it is not there."""
    messages = values.get(MESSAGES) if isinstance(values, Mapping) else None
    if not isinstance(messages, list):
        return []
    for place, message in enumerate(messages):
        if marker is not None and isinstance(message, Mapping) and message.get("id") == marker:
            return messages[place:]
    return messages


def said(messages: Sequence[Any], run_id: str, *, context_id: str, task_id: str) -> list[dict[str, Any]]:
    """Return what users and agents have said in words, without tools and what is said to models alone."""
    found = []
    for place, message in enumerate(messages):
        role, text = _role(message), _text(message)
        if role and text:
            name = str(message.get("id") or f"{run_id}:{place}")
            found.append(message_json(name, role, [text_part(text)], context_id=context_id, task_id=task_id))
    return found


def made(values: Any, messages: Sequence[Any], *, whole: bool) -> list[dict[str, Any]]:
    """Return the parts of what a run has made: its last words, or without any, if ``whole``, its values."""
    for message in reversed(messages):
        if _role(message) == "agent" and (text := _text(message)):
            return [text_part(text)]
    if not whole:
        return []
    if isinstance(values, Mapping):
        values = {key: value for key, value in values.items() if key not in (MESSAGES, INTERRUPTS)}
    return [data_part(values)] if values else []


def asked(interrupts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts of a message that asks what interrupts ask, each with its id."""
    found = []
    for each in interrupts:
        value, named = each.get("value"), {"interruptId": each.get("id")}
        found.append(text_part(value, named) if isinstance(value, str) else data_part(value, named))
    return found


def _role(message: Any) -> str | None:
    name = (message.get("type") or message.get("role")) if isinstance(message, Mapping) else None
    if name in _USERS:
        return "user"
    return "agent" if name in _AGENTS else None


def _text(message: Any) -> str:
    return text_of(message.get("content")) if isinstance(message, Mapping) else ""
