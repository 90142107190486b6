"""Files in the state of a graph, which last as long as its thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final, NamedTuple, NotRequired

from langgraph._internal._constants import CONFIG_KEY_READ, CONFIG_KEY_SEND
from typing_extensions import TypedDict, override

from stateroom.clock import Clock, system_clock
from stateroom.errors import InvalidInput, LimitExceeded, Misconfigured, OutsideGraph
from stateroom.files.data import FileFormat, check_file_format
from stateroom.files.running import FILESYSTEM, config_of
from stateroom.files.volume import Volume
from stateroom.files.volumes import Place, VolumeBackend
from stateroom.model.item import KeyEntry
from stateroom.model.json_values import decode_value, encode_value
from stateroom.model.namespace import check_key
from stateroom.stores.memory import InMemoryStore
from stateroom.stores.operations import DeleteItem, GetItem, PutItem, StoreOperation

__all__ = ["FilesState", "StateBackend", "merge_files"]

CHANNEL: Final = "files"
"""The part of the state that files are in."""

Files = Mapping[str, Mapping[str, Any]]


def merge_files(files: Files | None, update: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return the files after an update, in which None deletes: the reducer of the state's ``files``."""
    merged = {**(files or {}), **update}
    return {path: value for path, value in merged.items() if value is not None}


class FilesState(TypedDict):
    """The part of a graph's state that ``StateBackend`` needs; Deep Agents' state has it already."""

    files: NotRequired[Annotated[dict[str, Any], merge_files]]


class StateBackend(VolumeBackend):
    """Files as part of a graph's state: they last as long as the thread, and each thread has its own.

    ``runtime`` is what a backend factory is called with; the graph that is running is asked anyway. What
    is written is seen at once by the node that has written it, and by others in the next step.
    """

    def __init__(
        self, runtime: Any = None, *, file_format: FileFormat = "v1", clock: Clock = system_clock
    ) -> None:
        check_file_format(file_format)
        self._runtime = runtime
        self._volume = Volume((FILESYSTEM,), clock, file_format, is_conditional=False)

    @override
    def _place(self) -> Place:
        configurable = config_of(self._runtime).get("configurable") or {}
        if CONFIG_KEY_READ not in configurable:
            configurable = config_of(None).get("configurable") or {}
        read, send = configurable.get(CONFIG_KEY_READ), configurable.get(CONFIG_KEY_SEND)
        if read is None or send is None:
            raise OutsideGraph(
                "StateBackend works inside a LangGraph graph execution, in a node or a tool, since files are "
                'part of its state; to start with some, pass them: graph.invoke({"files": {...}, ...})'
            )
        files = _StateFiles(partial(_read, read), lambda update: send([(CHANNEL, update)]))
        # Each task of a graph has a way of its own to send, and sees what it has sent.
        return Place(self._volume, files.batch, None, lock=id(send))


class _StateFile(NamedTuple):
    """A file of the state, as ``Stored``."""

    value: Mapping[str, Any]
    revision: int = 0
    ttl: None = None


class _StateFiles:
    """The ``files`` of a state, asked as a store is."""

    def __init__(self, read: Callable[[], Files], send: Callable[[dict[str, Any]], None]) -> None:
        self._read = read
        self._send = send

    def batch(self, operations: list[StoreOperation]) -> list[Any]:
        """Apply operations in order, and send what they change in one update."""
        update: dict[str, Any] = {}
        results = [self._apply(operation, update) for operation in operations]
        if update:
            self._send(update)
        return results

    def _apply(self, operation: StoreOperation, update: dict[str, Any]) -> Any:
        match operation:
            case GetItem():
                value = self._read().get(operation.key)
                return None if value is None else _StateFile(_as_file(value))
            case PutItem():
                # Whatever a store refuses is refused here too, and what it would change is changed.
                update[check_key(operation.key)] = decode_value(encode_value(operation.value))
            case DeleteItem():
                update[operation.key] = None
            case _:
                return self._in_a_store(operation)
        return None

    def _in_a_store(self, asked: StoreOperation) -> Any:
        """Let a store answer what it can: there are no more files than a state can carry."""
        store = InMemoryStore()
        for path, value in self._read().items():
            # What no store would take is no file: states are filled by all kinds of code.
            with suppress(InvalidInput, LimitExceeded):
                store.batch([PutItem((FILESYSTEM,), path, _as_file(value))])
        found = store.batch([asked])[0]
        # They have been put there just now, which says nothing of the files.
        return [one._replace(updated=None) if isinstance(one, KeyEntry) else one for one in found]


def _as_file(value: Any) -> Mapping[str, Any]:
    """Return a value of the state as a file's: a bare text is one, with nothing else known of it."""
    return value if isinstance(value, Mapping) else {"content": value}


def _read(read: Callable[[str, bool], Any]) -> Files:
    try:
        return read(CHANNEL, True) or {}
    except KeyError:
        raise Misconfigured(
            "the graph's state has no 'files': let it inherit from stateroom.files.FilesState", field="files"
        ) from None
