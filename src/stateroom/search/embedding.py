"""Turns texts into vectors with whatever embedder the user brings, checked, cached and off the event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from langchain_core.embeddings import Embeddings
from langgraph.store.base.embed import EmbeddingsLambda
from numpy.typing import NDArray

from stateroom.errors import InvalidValue, Misconfigured
from stateroom.importing import find_module, load_named
from stateroom.search.digests import digest
from stateroom.search.index_config import LOCAL, IndexSettings, check_known_dims
from stateroom.search.local import LocalEmbeddings

__all__ = ["TEXTS_REMEMBERED", "Embedder", "make_embedder"]

T = TypeVar("T")
Vector: TypeAlias = NDArray[np.float32]

TEXTS_REMEMBERED: Final = 2_048
"""Vectors of so many texts are kept, so that equal texts are not embedded again."""

NUMBERS_ON_THE_LOOP: Final = 16_384
"""An answer of more numbers is checked in a worker thread: it would hold up an event loop for too long."""

_GREATEST = float(np.finfo(np.float32).max)

_Kind: TypeAlias = Literal["document", "query"]


def make_embedder(settings: IndexSettings) -> Embedder | None:
    """Return the embedder that the settings describe, or None if they have none.

    Raises ``Misconfigured`` if it cannot be loaded, or is known to make vectors of another size
    than ``index.dims``. Nothing is embedded yet.
    """
    if settings.embed is None or settings.dims is None:
        return None
    embed = _resolved(settings.embed) if isinstance(settings.embed, str) else settings.embed
    check_known_dims(embed, settings.dims)
    return Embedder(_model(embed), settings.dims)


class Embedder:
    """Makes float32 vectors of shape ``(dims,)``, read-only; its methods may be called from any thread.

    A call embeds each distinct text once, in one call of the user's embedder, and texts seen lately not at
    all. Async methods run a synchronous embedder in a worker thread; the synchronous ones run an
    asynchronous embedder on an event loop of a thread of its own. Errors of the user's embedder
    pass through. Vectors of a wrong number or size raise ``Misconfigured``, numbers that are not finite
    ``InvalidValue``.
    """

    def __init__(self, model: _Model, dims: int) -> None:
        self.dims = dims
        self._model = model
        self._recent = _Recent(TEXTS_REMEMBERED)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of texts to be found."""
        known, missing = self._recent.find("document", texts)
        if missing:
            known |= self._learn("document", missing, self._model.documents(missing.copy()))
        return [known[text] for text in texts]

    async def aembed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of texts to be found."""
        known, missing = self._recent.find("document", texts)
        if missing:
            answer = await self._model.documents.later(missing.copy())
            if len(missing) * self.dims <= NUMBERS_ON_THE_LOOP:
                known |= self._learn("document", missing, answer)
            else:
                known |= await asyncio.to_thread(self._learn, "document", missing, answer)
        return [known[text] for text in texts]

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a text to search for."""
        if self._model.query is None:
            return self.embed_documents([text])[0]
        known, missing = self._recent.find("query", [text])
        if missing:
            known = self._learn("query", missing, [self._model.query(text)])
        return known[text]

    async def aembed_query(self, text: str) -> Vector:
        """Return the vector of a text to search for."""
        if self._model.query is None:
            return (await self.aembed_documents([text]))[0]
        known, missing = self._recent.find("query", [text])
        if missing:
            known = self._learn("query", missing, [await self._model.query.later(text)])
        return known[text]

    def _learn(self, kind: _Kind, texts: list[str], answer: object) -> dict[str, Vector]:
        """Check the answer of the user's embedder and remember it."""
        matrix = _checked(answer, texts, self.dims)
        vectors = dict(zip(texts, matrix, strict=True))
        self._recent.keep(kind, vectors)
        return vectors


class _Call(Generic[T]):
    """One way into the user's embedder, for synchronous code and for coroutines.

    ``plain`` may return an awaitable; ``own`` is the embedder's own asynchronous form, if it has one.
    """

    def __init__(self, plain: Callable[[T], Any], own: Callable[[T], Awaitable[Any]] | None = None) -> None:
        self._plain = plain
        self._own = own

    def __call__(self, argument: T) -> Any:
        answer = self._plain(argument)
        return _BACKGROUND.run(answer) if inspect.isawaitable(answer) else answer

    async def later(self, argument: T) -> Any:
        """Call it without holding up the running event loop."""
        if self._own is not None:
            return await self._own(argument)
        answer = await asyncio.to_thread(self._plain, argument)
        return await answer if inspect.isawaitable(answer) else answer


@dataclass(frozen=True, slots=True)
class _Model:
    """The user's embedder; without ``query`` it embeds queries as it does documents."""

    documents: _Call[list[str]]
    query: _Call[str] | None = None


class _Recent:
    """The vectors of the texts that were used last, by digest, so that long texts take no room."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: OrderedDict[tuple[_Kind, bytes], Vector] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, kind: _Kind, texts: Iterable[str]) -> tuple[dict[str, Vector], list[str]]:
        """Return the known vectors by text, and the distinct texts without one, in order."""
        names = {text: (kind, digest(text)) for text in texts}
        known: dict[str, Vector] = {}
        with self._lock:
            for text, name in names.items():
                vector = self._vectors.get(name)
                if vector is not None:
                    self._vectors.move_to_end(name)
                    known[text] = vector
        return known, [text for text in names if text not in known]

    def keep(self, kind: _Kind, vectors: dict[str, Vector]) -> None:
        """Remember vectors, and forget the least recently used beyond the size."""
        for text, vector in list(vectors.items())[-self._size :]:
            own = vector
            if len(vectors) > 1:
                # A copy: a row would keep the whole matrix of its batch in memory.
                own = vector.copy()
                own.setflags(write=False)
            name = (kind, digest(text))
            with self._lock:
                self._vectors[name] = own
                self._vectors.move_to_end(name)
                if len(self._vectors) > self._size:
                    self._vectors.popitem(last=False)


def _model(embed: Any) -> _Model:
    """Take an embedder apart; each of its forms becomes the functions that it has."""
    if isinstance(embed, LocalEmbeddings):
        return _Model(_Call(embed.embed_array), _Call(embed.embed_query))
    if type(embed) is EmbeddingsLambda:
        # LangGraph's own wrapper of a function; its asynchronous kind refuses synchronous calls.
        embed = getattr(embed, "afunc", None) or embed.func
    documents, query = _method(embed, "embed_documents"), _method(embed, "embed_query")
    if documents and query and not isinstance(embed, type):
        return _Model(documents, query)
    if documents or query or not callable(embed):
        raise Misconfigured(
            "index.embed must be a function from texts to vectors or an object (not a class) with "
            f"embed_documents and embed_query, not {embed!r}",
            field="index.embed",
        )
    is_async = any(map(inspect.iscoroutinefunction, (embed, embed.__call__)))
    return _Model(_Call(_deferred(embed), embed) if is_async else _Call(embed))


def _method(embed: object, name: str) -> _Call[Any] | None:
    plain, own = getattr(embed, name, None), _own(embed, f"a{name}")
    if own is not None:
        return _Call(plain or _deferred(own), own)
    return _Call(plain) if plain is not None else None


def _deferred(own: Callable[[T], Awaitable[Any]]) -> Callable[[T], Awaitable[Any]]:
    """Put off the call to where its result is awaited, since it may need a running event loop."""

    async def call(argument: T) -> Any:
        return await own(argument)

    return call


def _own(embed: object, method: str) -> Callable[[Any], Awaitable[Any]] | None:
    """Return an asynchronous method, unless it is LangChain's default, which calls the synchronous one."""
    if getattr(type(embed), method, None) is getattr(Embeddings, method):
        return None
    found: Callable[[Any], Awaitable[Any]] | None = getattr(embed, method, None)
    return found


def _resolved(embed: str) -> object:
    """Load the embedder that a string names."""
    if embed == LOCAL:
        return LocalEmbeddings()
    if embed.rpartition(":")[0].endswith(".py"):
        return load_named(embed, base=Path(), field="index.embed")
    place, _, name = embed.partition(":")
    if not place or not name or embed.endswith(".py"):
        raise Misconfigured(
            f'index.embed {embed!r} must be "local", "provider:model", "module:name" or "./file.py:name"',
            field="index.embed",
        )
    module = find_module(place, field="index.embed") if name.isidentifier() else None
    # Many a provider has a Python package of its name, without an attribute that is called as its models.
    return getattr(module, name) if hasattr(module, name) else _langchain(embed, module)


def _langchain(embed: str, module: ModuleType | None) -> object:
    tried = f" (the module {module.__name__} has no such attribute either)" if module else ""
    try:
        from langchain.embeddings import init_embeddings
    except ImportError:
        raise Misconfigured(
            f'index.embed {embed!r} needs langchain: pip install "stateroom[embeddings]"{tried}',
            field="index.embed",
        ) from None
    try:
        return init_embeddings(embed)
    except Exception as error:
        raise Misconfigured(
            f"index.embed {embed!r} could not be loaded by langchain: {error}{tried}", field="index.embed"
        ) from error


def _checked(answer: Any, texts: list[str], dims: int) -> NDArray[np.float32]:
    """Return an embedder's answer as a matrix with a row for each text."""
    if not hasattr(answer, "__len__") or isinstance(answer, (str, bytes, dict)):
        raise _no_vectors(answer)
    if len(answer) != len(texts):
        raise Misconfigured(
            f"index.embed returned {len(answer)} vectors for {len(texts)} texts; it must return one for each",
            field="index.embed",
        )
    for vector in answer:
        if not hasattr(vector, "__len__") or isinstance(vector, (str, bytes)):
            raise _no_vectors(vector)
        if len(vector) != dims:
            raise Misconfigured(
                f"index.dims is {dims} but the embedder returned {len(vector)} numbers; "
                "set index.dims to the size of its vectors",
                field="index.dims",
            )
    try:
        # Twice the precision at first, since what overflows on its way to single would be warned of.
        wide = np.array(answer, dtype=np.float64)
    except (TypeError, ValueError):
        raise _no_vectors(answer[0]) from None
    if wide.ndim != 2:
        raise _no_vectors(answer[0])
    # NaN is in no range either.
    fits = np.abs(wide) <= _GREATEST
    if not fits.all():
        row, place = np.argwhere(~fits)[0].tolist()
        raise InvalidValue(
            f"index.embed returned {answer[row][place]} as number {place} of the vector of "
            f"{texts[row][:40]!r}; every number must be finite and fit 32 bits",
            field="index.embed",
        )
    matrix = wide.astype(np.float32)
    matrix.setflags(write=False)
    return matrix


def _no_vectors(answer: object) -> Misconfigured:
    return Misconfigured(
        f"index.embed must return a list of vectors, each a list of numbers; it returned {answer!r:.80}",
        field="index.embed",
    )


class _Background:
    """An event loop in a thread of its own, started on first use, for asynchronous code without a loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, answer: Awaitable[Any]) -> Any:
        """Await something there, while this thread waits."""

        async def waiting() -> Any:
            return await answer

        if threading.current_thread() is self._thread:
            # An asynchronous embedder that calls the store synchronously: its own loop cannot serve it.
            with ThreadPoolExecutor(1) as executor:
                return executor.submit(asyncio.run, waiting()).result()
        future = asyncio.run_coroutine_threadsafe(waiting(), self._started())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # The thread is not alive in a child process after a fork either.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="stateroom-embedding", daemon=True
                )
                self._thread.start()
            return self._loop


_BACKGROUND: Final = _Background()
