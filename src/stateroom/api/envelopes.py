"""Commands of a thread's protocol as they arrive, and what each is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from pydantic import ValidationError

from stateroom.api.commands import code_of
from stateroom.api.wire.protocol import Command

if TYPE_CHECKING:
    from stateroom.api.commands import Commands

__all__ = ["answered"]


async def answered(commands: Commands, data: bytes) -> tuple[bool, dict[str, Any]]:
    """Do what a message says; return whether it was a command at all, and the answer.

    What is nobody's fault but the server's is raised.
    """
    try:
        command = Command.model_validate(orjson.loads(data))
    except orjson.JSONDecodeError as error:
        return False, _failed(None, "invalid_argument", f"the command is not JSON: {error}")
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(map(str, fault["loc"])) or "the command"
        return False, _failed(None, "invalid_argument", f"{field}: {fault['msg']}")
    try:
        return True, {"type": "success", "id": command.id, "result": await commands(command)}
    except Exception as error:
        code = code_of(error)
        if code is None:
            raise
        return True, _failed(command.id, code, str(error))


def _failed(command_id: int | None, code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "id": command_id, "error": code, "message": message}
