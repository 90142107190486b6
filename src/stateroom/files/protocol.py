"""Deep Agents' backend protocol: its own where ``deepagents`` is installed, else the same shapes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from stateroom.errors import Misconfigured

__all__ = [
    "HAS_DEEP_AGENTS",
    "BackendProtocol",
    "DeleteResult",
    "EditResult",
    "FileData",
    "FileDownloadResponse",
    "FileInfo",
    "FileUploadResponse",
    "GlobResult",
    "GrepMatch",
    "GrepResult",
    "LsResult",
    "ReadResult",
    "WriteResult",
]

HAS_DEEP_AGENTS: Final = find_spec("deepagents") is not None
"""Whether backends here are backends to Deep Agents too."""

if TYPE_CHECKING or not HAS_DEEP_AGENTS:
    from stateroom.files.results import (
        BackendProtocol,
        DeleteResult,
        EditResult,
        FileData,
        FileDownloadResponse,
        FileInfo,
        FileUploadResponse,
        GlobResult,
        GrepMatch,
        GrepResult,
        LsResult,
        ReadResult,
        WriteResult,
    )
else:
    try:
        from deepagents.backends.protocol import (
            BackendProtocol,
            DeleteResult,
            EditResult,
            FileData,
            FileDownloadResponse,
            FileInfo,
            FileUploadResponse,
            GlobResult,
            GrepMatch,
            GrepResult,
            LsResult,
            ReadResult,
            WriteResult,
        )
    except ImportError as error:
        raise Misconfigured(
            "the installed deepagents is too old for stateroom.files: pip install 'stateroom[deepagents]', "
            "or uninstall it"
        ) from error
