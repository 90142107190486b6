"""Asking a human before an operation on files: what is shown, and which answers mean yes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langgraph.types import interrupt

from stateroom.files.answers import Refused
from stateroom.files.permission_rules import Access

__all__ = ["ask"]

FILES_SHOWN: Final = 100
"""Files that are named in one request."""

_APPROVE: Final = "approve"


def ask(access: Access, path: str, method: str, args: Mapping[str, Any], files: Sequence[str] = ()) -> None:
    """Interrupt the graph that is running until a human has approved; raise Refused if none does.

    ``files`` are those in question, where ``path`` is a directory; the first hundred are shown.

    What is shown is a request as LangChain's human-in-the-loop middleware makes it, with ``operation`` and
    ``path`` beside. The answer is what that middleware is sent, or a part of it, or True.
    """
    shown = {"files": list(files[:FILES_SHOWN]), "files_total": len(files)} if files else {}
    request = {
        "operation": access,
        "path": path,
        "action_requests": [
            {
                "name": method,
                "args": {**args, **shown},
                "description": f"{method} needs approval: {access} on {path}",
            }
        ],
        "review_configs": [{"action_name": method, "allowed_decisions": [_APPROVE, "reject"]}],
    }
    try:
        answer = interrupt(request)
    except (KeyError, RuntimeError):
        raise Refused(
            f"{access} on {path} needs approval, and only a graph that is running can ask for it"
        ) from None
    if not _is_yes(answer):
        raise Refused(f"{access} on {path} was rejected{_reason(answer)}")


def _is_yes(answer: Any) -> bool:
    answer = _decision(answer)
    return answer is True or answer == _APPROVE or _type(answer) == _APPROVE


def _decision(answer: Any) -> Any:
    """Return the one decision in an answer."""
    if isinstance(answer, Mapping) and "decisions" in answer:
        answer = answer["decisions"]
    if isinstance(answer, list) and len(answer) == 1:
        return answer[0]
    return answer


def _type(answer: Any) -> Any:
    return answer.get("type") if isinstance(answer, Mapping) else None


def _reason(answer: Any) -> str:
    decision = _decision(answer)
    message = decision.get("message") if isinstance(decision, Mapping) else None
    return f": {message}" if isinstance(message, str) and message else ""
