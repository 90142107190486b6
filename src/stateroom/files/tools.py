"""File tools for agents that are made without Deep Agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, NamedTuple, cast

from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel

from stateroom.errors import InvalidInput
from stateroom.files import tools_answers as answers
from stateroom.files import tools_arguments as arguments
from stateroom.files.calls import Call, Calls, acall, call, check_backend, lacks, result_of, takes
from stateroom.files.factory import BackendFactory, FactoryBackend
from stateroom.files.paths import ROOT
from stateroom.files.permissions import FilePermission, PermittedBackend
from stateroom.files.protocol import (
    BackendProtocol,
    DeleteResult,
    EditResult,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from stateroom.files.searching import SearchResult
from stateroom.files.tools_turns import rival
from stateroom.model.text import show

__all__ = ["file_tools"]


class _Tool(NamedTuple):
    """One tool: its text for the model, the backend's method behind it, and what is told of the result.

    ``named`` are arguments that the method takes by keyword alone; ``own`` are no matter of the backend's.
    """

    name: str
    method: str
    arguments: type[BaseModel]
    result: type[Any]
    tells: Callable[[Any, answers.Arguments], str | answers.Blocks]
    description: str
    changes: bool = False
    named: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()


_TOOLS: Final = (
    _Tool(
        "ls",
        "ls",
        arguments.LsArguments,
        LsResult,
        answers.listed,
        "List the files and directories in a directory, one path a line. Directories end with a slash.",
    ),
    _Tool(
        "read_file",
        "read",
        arguments.ReadArguments,
        ReadResult,
        answers.read,
        "Read a file. The first line of the answer, in square brackets, says which lines follow, how many "
        "there are and the offset that goes on; below it is the file itself. Pictures, sound, films and "
        "documents are shown as such. Read a file before you edit it.",
    ),
    _Tool(
        "write_file",
        "write",
        arguments.WriteArguments,
        WriteResult,
        answers.written,
        "Create a file, or replace everything that it holds. To change a part of a file, edit it.",
        changes=True,
    ),
    _Tool(
        "edit_file",
        "edit",
        arguments.EditArguments,
        EditResult,
        answers.edited,
        "Replace a text in a file. The text must occur in it exactly as given, and only once unless "
        "replace_all is true: give as much of what surrounds it as makes it unique.",
        changes=True,
    ),
    _Tool(
        "multi_edit_file",
        "multi_edit",
        arguments.MultiEditArguments,
        EditResult,
        answers.many_edited,
        "Replace several texts in one file, one after the other. If one of them cannot be replaced, nothing "
        "is changed. Use it for more than one change to the same file.",
        changes=True,
    ),
    _Tool(
        "delete",
        "delete",
        arguments.DeleteArguments,
        DeleteResult,
        answers.deleted,
        "Delete a file, or a directory with everything in it. This cannot be undone.",
        changes=True,
    ),
    _Tool(
        "glob",
        "glob",
        arguments.GlobArguments,
        GlobResult,
        answers.found,
        "Find files by a pattern of their paths; the last modified come first.",
    ),
    _Tool(
        "grep",
        "grep",
        arguments.GrepArguments,
        GrepResult,
        answers.grepped,
        "Find the files, or the lines, that hold a text letter for letter.",
        named=frozenset({"max_count"}),
        own=frozenset({"output_mode"}),
    ),
    _Tool(
        "search_files",
        "search",
        arguments.SearchArguments,
        SearchResult,
        answers.searched,
        "Find the files that are about something, the best first, each with the line that fits best. To find "
        "a text letter for letter, use grep.",
        named=frozenset({"limit"}),
    ),
)

MATCHES: Final = 1_000
"""Lines that ``grep`` finds at most unless told otherwise."""


def file_tools(
    backend: BackendProtocol | BackendFactory,
    *,
    tools: Iterable[str] | None = None,
    permissions: Sequence[FilePermission] = (),
) -> list[BaseTool]:
    """Return LangChain tools over a backend, or over what a factory makes for the graph that is running.

    They are ``ls``, ``read_file``, ``write_file``, ``edit_file``, ``multi_edit_file``, ``delete``, ``glob``,
    ``grep`` and ``search_files``, with the names and arguments that Deep Agents has for its own; those whose
    operation the backend does not offer are left out. ``tools`` selects some by name. ``permissions`` say
    what may be read and written, as ``PermittedBackend`` has it.

    What a model does wrong is answered as a text that says how to do it right; what is wrong with the set-up
    or the storage is raised. Results beyond 80,000 characters are cut, and say so. Where files are anywhere
    but in a ``StoreBackend``, a call that changes what an earlier call of the same message changes is
    refused, since one of the two would be lost.

    Raises InvalidInput for a tool that there is not, Misconfigured for what is no backend.
    """
    backend = _backend(backend)
    chosen = _chosen(backend, tools)
    changing = frozenset(tool.name for tool in chosen if tool.changes)
    asked = PermittedBackend(backend, permissions) if permissions else backend
    return [_made(tool, asked, changing) for tool in chosen]


def _backend(backend: BackendProtocol | BackendFactory) -> BackendProtocol:
    if isinstance(backend, BackendProtocol):
        return backend
    if callable(backend) and not isinstance(backend, type):
        return FactoryBackend(backend)
    check_backend(backend, "backend")
    return cast(BackendProtocol, backend)


def _chosen(backend: BackendProtocol, names: Iterable[str] | None) -> list[_Tool]:
    if names is None:
        return [tool for tool in _TOOLS if _offers(backend, tool.method)]
    if isinstance(names, str):
        raise InvalidInput(f"tools is {show(names)}; pass a list of names", field="tools")
    known = {tool.name: tool for tool in _TOOLS}
    chosen: dict[str, _Tool] = {}
    for place, name in enumerate(names):
        field = f"tools[{place}]"
        tool = known.get(name) if isinstance(name, str) else None
        if tool is None:
            raise InvalidInput(f"{field} is {show(name)}; there are {', '.join(known)}", field=field)
        if not _offers(backend, tool.method):
            raise InvalidInput(f"{field} is {show(name)}, which this backend does not offer", field=field)
        chosen[name] = tool
    return list(chosen.values())


def _offers(backend: BackendProtocol, method: str) -> bool:
    """Tell whether a backend has a method of its own, and not only the protocol's, which does nothing."""
    if lacks(backend, method):
        return False
    return getattr(type(backend), method, None) is not getattr(BackendProtocol, method, NotImplemented)


def _made(tool: _Tool, backend: BackendProtocol, changing: frozenset[str]) -> BaseTool:
    def func(runtime: Annotated[ToolRuntime | None, InjectedToolArg] = None, **given: Any) -> Any:
        return call(_operation(tool, backend, changing, runtime, given))

    async def coroutine(runtime: Annotated[ToolRuntime | None, InjectedToolArg] = None, **given: Any) -> Any:
        return await acall(_operation(tool, backend, changing, runtime, given))

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.arguments,
        func=func,
        coroutine=coroutine,
        handle_tool_error=True,
        handle_validation_error=_bad_arguments,
    )


def _operation(
    tool: _Tool,
    backend: BackendProtocol,
    changing: frozenset[str],
    runtime: ToolRuntime | None,
    given: dict[str, Any],
) -> Calls[str | answers.Blocks]:
    if tool.changes and (other := rival(backend, given["file_path"], runtime, changing)):
        raise answers.refused(
            f"an earlier call of the same message changes '{other}', so this one was not made: call it again "
            "on its own, when you have seen the result of the other"
        )
    names = [name for name in tool.arguments.model_fields if name not in tool.named | tool.own]
    options = {name: given[name] for name in tool.named if takes(backend, tool.method, name)}
    if "max_count" in options:
        options["max_count"] = options["max_count"] or MATCHES
    (answer,) = yield [Call(backend, tool.method, tuple(given[name] for name in names), options)]
    path = given.get("file_path") or given.get("path") or ROOT
    return tool.tells(result_of(tool.result, answer, tool.method, path), given)


def _bad_arguments(error: Any) -> str:
    """Say what is wrong with each argument."""
    faults = [
        f"{'.'.join(map(str, fault['loc'])) or 'the arguments'}: {fault['msg']}" for fault in error.errors()
    ]
    return f"Error: {'; '.join(faults)}. Call the tool again with arguments as it describes them."
