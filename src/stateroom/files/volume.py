"""One file system of one store: where its files are, how they are written, and what bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

from stateroom.clock import Clock
from stateroom.files.data import FileFormat, file_value, iso_time
from stateroom.model.file import Content
from stateroom.model.page import ROWS_MAX
from stateroom.stores.operations import DeleteItem, GetItem, ListItemKeys, PutItem

__all__ = ["Stored", "Volume"]


class Stored(Protocol):
    """What a store or a state answers for a file that is there."""

    @property
    def value(self) -> Mapping[str, Any]:
        """The file's JSON object."""

    @property
    def revision(self) -> int:
        """What a write names that must replace just this."""

    @property
    def ttl(self) -> float | None:
        """The minutes that the file lives after it was put, None for ever."""


class Volume(NamedTuple):
    """A namespace as a file system; the key of each file is its path.

    ``is_indexed`` says that a write may tell what of a file is searched: what it holds and nothing else.
    ``is_conditional`` says that a write can name the revision that it replaces. ``lists_cheaply`` says
    that listing reads no more than it answers. ``max_files`` and ``max_bytes`` bound what all files are
    together.
    """

    namespace: tuple[str, ...]
    clock: Clock
    file_format: FileFormat = "v1"
    is_indexed: bool = False
    is_conditional: bool = True
    lists_cheaply: bool = True
    max_files: int | None = None
    max_bytes: int | None = None

    def page(self, size: int) -> int:
        """Return how many entries to ask for at once: all, where every question reads everything."""
        return size if self.lists_cheaply else ROWS_MAX

    def get(self, path: str) -> GetItem:
        """Return what reads a file so that it can be written: that is no use of it, and refreshes nothing."""
        return GetItem(self.namespace, path, refresh_ttl=False)

    def list(self, prefix: str, **options: Any) -> ListItemKeys:
        """Return what lists the files whose paths begin with ``prefix``."""
        return ListItemKeys(self.namespace, prefix, **options)

    def put(self, path: str, content: Content, seen: Stored | None) -> PutItem:
        """Return what writes a file, unless something else than ``seen`` is there by then."""
        old = {} if seen is None else seen.value
        value = file_value(content, iso_time(self.clock()), self.file_format, old)
        index: Literal[False] | list[str] | None = None
        if self.is_indexed:
            index = ["content"] if isinstance(content, str) else False
        put = PutItem(self.namespace, path, value, index)
        if not self.is_conditional:
            return put
        if seen is None:
            return put._replace(if_absent=True)
        return put._replace(ttl=seen.ttl, if_revision=seen.revision)

    def delete(self, path: str, revision: int | None = None) -> DeleteItem:
        """Return what deletes a file; with a revision, only what has it, where that can be told."""
        return DeleteItem(self.namespace, path, revision if self.is_conditional else None)
