"""Items in process memory: the readable reference, and what random tests hold every other driver to."""

from stateroom.drivers.memory.items import MemoryItems

__all__ = ["MemoryItems"]
