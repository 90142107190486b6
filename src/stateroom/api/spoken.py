"""What an agent says last, for clients that want words and no state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["last_words", "text_of"]

_AGENTS: Final = ("ai", "AIMessageChunk", "assistant")


def last_words(values: Any) -> str | None:
    """Return the text of the last message that an agent has left in a state; None without one."""
    messages = values.get("messages") if isinstance(values, Mapping) else None
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, Mapping) and (message.get("type") or message.get("role")) in _AGENTS:
            return text_of(message.get("content")) or None
    return None


def text_of(content: Any) -> str:
    """Return the text of a message's content, which is a text or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(_block_text(block) for block in blocks)


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    return text if isinstance(text, str) else ""
