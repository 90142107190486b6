"""Listing the keys of one node of the tree."""

from __future__ import annotations

from stateroom.contract import keys
from stateroom.contract.items import ListKeys
from stateroom.drivers.memory.tree import Node
from stateroom.model.item import Listed

__all__ = ["list_keys"]


def list_keys(node: Node, operation: ListKeys) -> list[Listed]:
    """Return what the operation lists of a node's own items."""
    return keys.list_keys(operation, node.keys(), node.items)
