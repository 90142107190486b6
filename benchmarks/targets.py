"""The ratios to the peers that we are after, at 100,000 items unless another size is named."""

from __future__ import annotations

__all__ = ["EVEN", "GROWTH", "GROWTH_MEMORY", "TEXT_COST", "target"]

EVEN = 1.0
"""What holds wherever nothing else is said: no operation, at no size, slower than a peer's."""

TEXT_COST = {"memory": 1 / 3, "sqlite": 1 / 2, "durable": 1 / 2, "postgres": 1 / 1.3}
"""What a put with the text index may cost, as a ratio to the same put without it."""

GROWTH, GROWTH_MEMORY = 1 / 2, 1 / 3
"""What an operation may lose while other namespaces grow; in memory there are cache misses besides."""

SIZE = 100_000

_MEMORY = {
    "get": 1.5,
    "get 100, many namespaces": 1.2,
    "put new": 1.1,
    "put over": 1.4,
    "put 100": 1.3,
    "delete": 2.0,
    "search namespace of 10": 50.0,
    "search namespace of 1,000": 50.0,
    "search prefix 1 %": 4.0,
    "search prefix all": 4.0,
    "filter equal 5 %": 1_000.0,
    "filter range 70 %": 1_000.0,
    "filter rare .1 %": 1_000.0,
    "filter none": 1_000.0,
    "filter inside 1 %": 10.0,
    "page at .9 N": 100.0,
    "namespaces depth 2": 100.0,
    "namespaces wildcard": 100.0,
    "namespaces first 100": 50.0,
    "vector all": 1_000.0,
    "vector 1 % namespace": 20.0,
    "vector filter 5 %": 50.0,
}
_SQLITE = {
    "get": 3.0,
    "get 100, many namespaces": 2.0,
    "get 100, one namespace": 1.4,
    "put new": 1.5,
    "put over": 1.4,
    "put 100": 1.3,
    "delete": 1.5,
    "search namespace of 10": 2.2,
    "search namespace of 1,000": 5.0,
    "search prefix 1 %": 2.0,
    "search prefix all": 100.0,
    "filter equal 5 %": 100.0,
    "filter range 70 %": 100.0,
    "filter rare .1 %": 3.0,
    "filter none": 3.0,
    "filter rare .1 %, declared key": 1_000.0,
    "filter none, declared key": 1_000.0,
    "filter inside 1 %": 2.0,
    "page at .9 N": 20.0,
    "namespaces depth 2": 100.0,
    "namespaces wildcard": 50.0,
    "namespaces suffix": 50.0,
    "vector all": 80.0,
    "vector 1 % namespace": 1.8,
    "vector filter 5 %": 5.0,
    "aget, 16 tasks": 3.0,
    "asearch, 16 tasks": 3.0,
    "80 aget 20 aput, 16 tasks": 3.0,
}
_POSTGRES = {
    "get": 3.5,
    "get 100, many namespaces": 20.0,
    "get 100, one namespace": 2.0,
    "put new": 1.15,
    "put 100": 1.3,
    "delete": 1.1,
    "search namespace of 10": 3.0,
    "search namespace of 1,000": 4.0,
    "search prefix 1 %": 2.0,
    "search prefix all": 50.0,
    "filter equal 5 %": 50.0,
    "filter range 70 %": 50.0,
    "filter rare .1 %": 40.0,
    "filter none": 100.0,
    "filter inside 1 %": 1.6,
    "page at .9 N": 7.0,
    "namespaces depth 2": 200.0,
    "namespaces wildcard": 30.0,
    "namespaces suffix": 300.0,
    "namespaces first 100": 3.0,
    "vector all": 1.2,
    "vector 1 % namespace": 3.0,
    "vector filter 5 %": 10.0,
    "vector put": 10.0,
    "vector put 100": 50.0,
}
_DURABLE = {"put new": 3.5, "put 100": 2.0}
_TARGETS = {"memory": _MEMORY, "sqlite": _SQLITE, "durable": _DURABLE, "postgres": _POSTGRES}
_AT_10_000 = {("memory", "get"): 3.0, ("memory", "vector all"): 150.0}


def target(backend: str, n: int, operation: str) -> float:
    """Return how many times faster than the peer an operation should be."""
    if n == SIZE:
        return _TARGETS[backend].get(operation, EVEN)
    if n == 10_000:
        return _AT_10_000.get((backend, operation), EVEN)
    return EVEN
