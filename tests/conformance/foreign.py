"""Opening a store over somebody else's for the suites, with the options that the suites pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

import pytest
from langchain_core.embeddings import Embeddings
from langgraph.store.base import BaseStore
from typing_extensions import override

from stateroom.clock import Clock, system_clock
from stateroom.contract.items import Capability, Put
from stateroom.errors import Misconfigured
from stateroom.model.ttl import parse_ttl_config
from stateroom.search.index_config import IndexSettings, check_index_keys, parse_index_config
from stateroom.stores.foreign import ForeignStore, ForeignTranslation
from stateroom.stores.operations import Translation
from stateroom.testing.embedders import Coordinates
from stateroom.testing.harness import Harness

__all__ = ["NOT_TOLD", "UNINDEXED", "Index", "differs", "opened", "opened_with_vectors"]

Index = Mapping[str, Any] | None

EMBEDDING = ("dims", "embed", "fields", "distance_type")

NOT_TOLD = "a foreign store does not tell how an item was indexed, so a put that asks for it is refused"
UNINDEXED = dict.fromkeys(
    [
        "test_a_put_may_name_the_paths_that_are_found",
        "test_the_store_may_be_told_which_paths_are_found",
        "test_an_item_that_is_not_indexed_is_there_for_everything_but_queries",
        "test_an_update_that_is_not_indexed_removes_the_old_text",
        "test_an_item_that_is_not_indexed_moves_no_score",
    ],
    NOT_TOLD,
)

Suite = TypeVar("Suite", bound=type[Harness])


class _Heedless(ForeignTranslation):
    """Drops ``index`` where it would have to be refused, for the many tests whose subject is another."""

    @override
    def put(self, *args: Any, **options: Any) -> Put:
        operation = Translation.put(self, *args, **options)
        return operation if self._embeds else operation._replace(paths=None)


class _Opened(ForeignStore):
    """What ``from_base_store`` makes, but for that."""

    def __init__(self, store: BaseStore, *, index: IndexSettings, ttl: Mapping[str, Any] | None) -> None:
        super().__init__(store, index=index, ttl=ttl)
        has_vectors = Capability.VECTOR in self.capabilities
        self._translation = _Heedless(index, self._translation.ttl, self.capabilities, embeds=has_vectors)


def opened(
    make: Callable[[], BaseStore],
    *,
    index: Index = None,
    ttl: Mapping[str, Any] | None = None,
    index_keys: Sequence[str] = (),
    clock: Clock = system_clock,  # noqa: ARG001  # the foreign store has one of its own
) -> ForeignStore:
    """Open a store over one without an index; what an ``index`` says of texts is for us to heed.

    ``from_base_store`` opens the same with no option but ``ttl``.
    """
    settings = parse_index_config(index)
    check_index_keys(index_keys)
    if settings.embed is not None:
        raise Misconfigured("index.embed: the store embeds by itself, or not at all", field="index.embed")
    parse_ttl_config(ttl)
    return _Opened(make(), index=settings, ttl=ttl)


def opened_with_vectors(
    make: Callable[[Any], BaseStore],
    *,
    index: Index = None,
    ttl: Mapping[str, Any] | None = None,
    index_keys: Sequence[str] = (),
    clock: Clock = system_clock,  # noqa: ARG001  # as above
) -> ForeignStore:
    """Open a store over one that embeds as ``index`` says, or in some way if it says nothing."""
    settings = parse_index_config(index)
    check_index_keys(index_keys)
    given = index if settings.embed is not None else {"embed": Coordinates(), "dims": 2}
    theirs = {name: value for name, value in (given or {}).items() if name in EMBEDDING}
    if isinstance(theirs["embed"], Coordinates):
        theirs["embed"] = _Embeddings(theirs["embed"])
    return _Opened(make(theirs), index=settings, ttl=ttl)


class _Embeddings(Embeddings):
    """An embedder of the suite's in the shape that LangGraph's stores want."""

    def __init__(self, embedder: Coordinates) -> None:
        self._embedder = embedder

    @override
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._embedder.embed_documents(texts)

    @override
    def embed_query(self, text: str) -> list[float]:
        return self._embedder.embed_query(text)


def differs(
    reasons: Mapping[str, str], sometimes: Mapping[str, str] | None = None
) -> Callable[[Suite], Suite]:
    """Name the tests that a store cannot pass, each with the reason: it is an error if it passes one.

    Those that it passes ``sometimes``, with some of a test's parameters or by luck, are named apart.
    """

    def decorate(suite: Suite) -> Suite:
        for strict, tests in ((True, reasons), (False, sometimes or {})):
            for name, reason in tests.items():
                setattr(suite, name, _failing(getattr(suite, name), reason, strict=strict))
        return suite

    return decorate


def _failing(test: Callable[..., None], reason: str, *, strict: bool) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        test(*args, **fixtures)

    # A function of its own: a mark on the inherited one would reach every other suite.
    run.pytestmark = [*getattr(test, "pytestmark", [])]  # type: ignore[attr-defined]
    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    marked: Callable[..., None] = pytest.mark.xfail(strict=strict, reason=reason)(run)
    return marked
