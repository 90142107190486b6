"""The stream mode ``messages``: tokens added up to messages, as they grow and when they are done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, BaseMessageChunk, message_chunk_to_message

from stateroom.engine.encoding import encode
from stateroom.engine.frame_names import frame_name
from stateroom.model.frame import NewFrame

__all__ = ["MessageFrames"]


class MessageFrames:
    """Makes the frames of a run's messages.

    ``messages/metadata`` comes once for each message, ``messages/partial`` with all of it so far for each
    token, and ``messages/complete`` at its end, or at once for a message that a node returned whole.
    """

    def __init__(self) -> None:
        self._growing: dict[str | None, BaseMessageChunk] = {}
        self._announced: set[str | None] = set()

    def frames(self, namespace: Sequence[str], message: BaseMessage, metadata: Any) -> Iterator[NewFrame]:
        """Return the frames for a message, or for a token of one."""
        if message.id not in self._announced:
            self._announced.add(message.id)
            told = encode({message.id: {"metadata": metadata}})
            yield NewFrame(frame_name("messages/metadata", namespace), told)
        if not isinstance(message, BaseMessageChunk):
            yield NewFrame(frame_name("messages/complete", namespace), encode([message]))
            return
        grown = self._grow(message)
        data = encode([message_chunk_to_message(grown)])
        yield NewFrame(frame_name("messages/partial", namespace), data)
        if getattr(message, "chunk_position", None) == "last":
            del self._growing[message.id]
            yield NewFrame(frame_name("messages/complete", namespace), data)

    def _grow(self, token: BaseMessageChunk) -> BaseMessageChunk:
        so_far = self._growing.get(token.id)
        grown = token if so_far is None else so_far + token
        assert isinstance(grown, BaseMessageChunk)
        self._growing[token.id] = grown
        return grown
