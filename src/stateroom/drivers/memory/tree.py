"""The tree of namespaces, in which every node knows the items below it, latest put last."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from stateroom.contract.items import Embedded
from stateroom.model.file import Stat
from stateroom.model.item import Record
from stateroom.model.json_values import decode_value
from stateroom.model.namespace import Match, Namespace

__all__ = ["Entry", "Node", "Tree"]

STALE_KEYS_SHARE = 2
"""How many times as many keys as there are items a node's list may hold before it is made anew."""


class Entry:
    """One stored item, with what has been derived from its value so far."""

    __slots__ = ("_value", "alive", "length", "node", "paths", "record", "stat", "terms", "vectors")

    def __init__(
        self,
        record: Record,
        node: Node,
        paths: tuple[str, ...] | None,
        vectors: tuple[Embedded, ...],
        stat: Stat | None,
    ) -> None:
        self.record = record
        self.stat = stat
        self.node = node
        self.paths = paths
        self.vectors = vectors
        self.alive = True
        self.terms: dict[str, int] | None = None
        self.length = 0
        self._value: dict[str, Any] | None = None

    @property
    def value(self) -> dict[str, Any]:
        """The decoded value, for reading inside the driver only: callers get copies of their own."""
        if self._value is None:
            self._value = decode_value(self.record.raw)
        return self._value


class Node:
    """A namespace or an ancestor of one.

    ``recent`` maps revisions to the entries at or below the node. A dictionary keeps insertion order
    and revisions only grow, so it is always sorted by recency.
    """

    __slots__ = ("_keys", "_labels", "_new_keys", "children", "items", "lineage", "namespace", "recent")

    def __init__(self, namespace: Namespace, parent: Node | None) -> None:
        self.namespace = namespace
        self.lineage: tuple[Node, ...] = (*parent.lineage, self) if parent else (self,)
        self.children: dict[str, Node] = {}
        self.items: dict[str, Entry] = {}
        self.recent: dict[int, Entry] = {}
        self._labels: list[str] | None = None
        self._keys: list[str] | None = None
        self._new_keys: set[str] = set()

    def keys(self) -> list[str]:
        """Return keys in code-point order: all of the node's own items, and some that are gone."""
        if self._keys is None or len(self._keys) > STALE_KEYS_SHARE * len(self.items):
            self._keys = sorted(self.items)
        elif self._new_keys:
            # Two sorted runs are merged in linear time.
            self._keys += sorted(self._new_keys)
            self._keys.sort()
        self._new_keys = set()
        return self._keys

    def note_key(self, key: str) -> None:
        """Keep ``keys`` right for an item that may be new."""
        if self._keys is not None:
            place = bisect_left(self._keys, key)
            if place == len(self._keys) or self._keys[place] != key:
                self._new_keys.add(key)

    def labels(self) -> list[str]:
        """Return the children's labels in code-point order."""
        if self._labels is None:
            self._labels = sorted(self.children)
        return self._labels

    def adopt(self, label: str) -> Node:
        """Return the child of that label, new if need be."""
        child = self.children.get(label)
        if child is None:
            child = self.children[label] = Node((*self.namespace, label), self)
            self._labels = None
        return child

    def orphan(self, label: str) -> None:
        """Forget a child."""
        del self.children[label]
        self._labels = None


class Tree:
    """All nodes that hold an item at or below them, and the root."""

    def __init__(self) -> None:
        self.root = Node((), None)
        self._nodes: dict[Namespace, Node] = {(): self.root}
        self._by_last: dict[str, dict[Node, None]] = {}

    def find(self, namespace: Namespace) -> Node | None:
        """Return the node of a namespace, or None when nothing lives there or below."""
        return self._nodes.get(namespace)

    def make(self, namespace: Namespace) -> Node:
        """Return the node of a namespace, new if need be."""
        node = self._nodes.get(namespace)
        if node is None:
            node = self.root
            for label in namespace:
                node = node.adopt(label)
                if node.namespace not in self._nodes:
                    self._nodes[node.namespace] = node
                    self._by_last.setdefault(label, {})[node] = None
        return node

    def insert(self, entry: Entry) -> None:
        """Add an entry whose revision is the greatest yet."""
        record = entry.record
        entry.node.items[record.key] = entry
        entry.node.note_key(record.key)
        for node in entry.node.lineage:
            node.recent[record.revision] = entry

    def remove(self, entry: Entry, *, keep_node: bool = False) -> None:
        """Take an entry out, and with it the nodes that are empty now unless they are about to be filled."""
        record = entry.record
        entry.alive = False
        del entry.node.items[record.key]
        for node in entry.node.lineage:
            del node.recent[record.revision]
        if not keep_node and not entry.node.recent:
            self._prune(entry.node)

    def _prune(self, node: Node) -> None:
        for child, parent in zip(reversed(node.lineage), reversed(node.lineage[:-1]), strict=False):
            if child.recent:
                return
            label = child.namespace[-1]
            parent.orphan(label)
            del self._nodes[child.namespace]
            del self._by_last[label][child]
            if not self._by_last[label]:
                del self._by_last[label]

    def namespaces(self, matches: Sequence[Match], max_depth: int | None) -> Iterator[Namespace]:
        """Yield the matching namespaces with items, cut to ``max_depth``, once each and in order."""
        prefixes = [match.path for match in matches if match.kind == "prefix"]
        suffixes = [match for match in matches if match.kind == "suffix"]
        anchored = max((len(path) for path in prefixes), default=0)
        last = next((match.path[-1] for match in suffixes if match.path and match.path[-1] != "*"), None)
        if last is not None:
            yield from self._ending(last, matches, max_depth)
            return
        stack = [self.root]
        while stack:
            node = stack.pop()
            depth = len(node.namespace)
            if depth == max_depth:
                if any(_matching(node, prefixes, suffixes, anchored)):
                    yield node.namespace
                continue
            if node.items and depth >= anchored and all(m.matches(node.namespace) for m in suffixes):
                yield node.namespace
            stack.extend(_children(node, prefixes))

    def _ending(self, last: str, matches: Sequence[Match], max_depth: int | None) -> Iterator[Namespace]:
        """Yield what ``namespaces`` does when a condition says how they end."""
        names = (node.namespace for node in self._by_last.get(last, {}) if node.items)
        found = (name[:max_depth] for name in names if all(match.matches(name) for match in matches))
        yield from sorted(set(found))


def _children(node: Node, prefixes: Sequence[Namespace]) -> list[Node]:
    """Return the children that the prefix conditions allow, the first in order last."""
    depth = len(node.namespace)
    wanted = {path[depth] for path in prefixes if len(path) > depth and path[depth] != "*"}
    if not wanted:
        return [node.children[label] for label in reversed(node.labels())]
    if len(wanted) > 1:
        return []
    child = node.children.get(wanted.pop())
    return [child] if child else []


def _matching(
    node: Node, prefixes: Sequence[Namespace], suffixes: Sequence[Match], anchored: int
) -> Iterator[bool]:
    """Yield True for each namespace at or below ``node`` that has items and satisfies the conditions."""
    if not suffixes and len(node.namespace) >= anchored:
        yield True
        return
    stack = [node]
    while stack:
        current = stack.pop()
        if (
            current.items
            and len(current.namespace) >= anchored
            and all(match.matches(current.namespace) for match in suffixes)
        ):
            yield True
        stack.extend(_children(current, prefixes))
