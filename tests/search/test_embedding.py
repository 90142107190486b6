"""Turning texts into vectors with every kind of embedder, from every kind of code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, cast

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langgraph.store.base.embed import EmbeddingsLambda
from typing_extensions import override

from stateroom.errors import InvalidValue, Misconfigured
from stateroom.search import embedding
from stateroom.search.digests import digest
from stateroom.search.embedding import TEXTS_REMEMBERED, Embedder, make_embedder
from stateroom.search.index_config import parse_index_config

DIMS = 4


def vector(text: str, sign: float = 1.0) -> list[float]:
    return [sign * len(text), float(sum(map(ord, text)) % 97), 0.5, -1.0]


class Recorder:
    """Notes every call of an embedder, and the thread that it ran in."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.threads: list[threading.Thread] = []

    def note(self, call: Any) -> None:
        self.calls.append(call)
        self.threads.append(threading.current_thread())

    def function(self, texts: list[str]) -> list[list[float]]:
        self.note(texts)
        return [vector(text) for text in texts]

    async def coroutine(self, texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return self.function(texts)


class Asymmetric(Recorder, Embeddings):
    """A LangChain embedder whose queries live in another space than its documents."""

    @override
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.function(texts)

    @override
    def embed_query(self, text: str) -> list[float]:
        self.note(("query", text))
        return vector(text, -1.0)


class Both(Asymmetric):
    @override
    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.note("async")
        return [vector(text) for text in texts]

    @override
    async def aembed_query(self, text: str) -> list[float]:
        self.note("async query")
        return vector(text, -1.0)


class OnlyAsync(Recorder):
    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return await self.coroutine(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return vector(text, -1.0)


class AsyncCallable(Recorder):
    async def __call__(self, texts: list[str]) -> list[list[float]]:
        return await self.coroutine(texts)


def make(embed: Any, dims: int = DIMS) -> Embedder:
    embedder = make_embedder(parse_index_config({"embed": embed, "dims": dims}))
    assert embedder is not None
    return embedder


def lists(vectors: Sequence[np.ndarray[Any, Any]]) -> list[list[float]]:
    return [found.tolist() for found in vectors]


FORMS: dict[str, Callable[[], Any]] = {
    "function": lambda: Recorder().function,
    "coroutine function": lambda: Recorder().coroutine,
    "function that returns an awaitable": lambda: lambda texts: Recorder().coroutine(texts),
    "object with an async call": AsyncCallable,
    "Embeddings": Asymmetric,
    "Embeddings with async methods": Both,
    "object with async methods only": OnlyAsync,
    "LangGraph's wrapper of a function": lambda: EmbeddingsLambda(cast(Any, Recorder().function)),
    "LangGraph's wrapper of a coroutine function": lambda: EmbeddingsLambda(cast(Any, Recorder().coroutine)),
    "numpy function": lambda: lambda texts: np.array(Recorder().function(texts)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_embedder_works_from_synchronous_code(form: str) -> None:
    embedder = make(FORMS[form]())
    found = embedder.embed_documents(["a", "bc", "a"])
    assert lists(found) == [vector("a"), vector("bc"), vector("a")]
    assert all(v.dtype == np.float32 and v.shape == (DIMS,) for v in found)
    assert abs(embedder.embed_query("def")).tolist() == list(map(abs, vector("def")))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_embedder_works_from_a_coroutine(form: str) -> None:
    async def main() -> None:
        embedder = make(FORMS[form]())
        assert lists(await embedder.aembed_documents(["a", "bc", "a"])) == [
            vector("a"), vector("bc"), vector("a"),
        ]  # fmt: skip
        assert abs(await embedder.aembed_query("def")).tolist() == list(map(abs, vector("def")))

    asyncio.run(main())


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_embedder_works_from_synchronous_code_inside_a_running_loop(form: str) -> None:
    async def main() -> None:
        embedder = make(FORMS[form]())
        assert lists(embedder.embed_documents(["a"])) == [vector("a")]
        assert abs(embedder.embed_query("def")).tolist() == list(map(abs, vector("def")))

    asyncio.run(main())


@pytest.mark.parametrize("kind", [Asymmetric, Both, OnlyAsync])
def test_queries_are_embedded_by_the_query_method(kind: Callable[[], Any]) -> None:
    embedder = make(kind())
    assert embedder.embed_documents(["same"])[0].tolist() == vector("same")
    assert embedder.embed_query("same").tolist() == vector("same", -1.0)
    assert asyncio.run(make(kind()).aembed_query("same")).tolist() == vector("same", -1.0)
    assert embedder.embed_documents(["same"])[0].tolist() == vector("same")


def test_a_coroutine_uses_the_embedders_own_async_methods_where_they_are_real() -> None:
    own, inherited = Both(), Asymmetric()
    asyncio.run(make(own).aembed_documents(["a"]))
    asyncio.run(make(own).aembed_query("a"))
    asyncio.run(make(inherited).aembed_documents(["a"]))
    asyncio.run(make(inherited).aembed_query("a"))
    assert own.calls == ["async", "async query"]
    assert inherited.calls == [["a"], ("query", "a")]
    assert threading.main_thread() not in inherited.threads


def test_a_synchronous_embedder_leaves_the_event_loop_free() -> None:
    called, finish = threading.Event(), threading.Event()

    def slow(texts: list[str]) -> list[list[float]]:
        called.set()
        assert finish.wait(10)
        return [vector(text) for text in texts]

    async def main() -> list[list[float]]:
        task = asyncio.create_task(make(slow).aembed_documents(["a"]))
        await asyncio.to_thread(called.wait, 10)
        # The embedder is at work, and this loop still turns.
        finish.set()
        return lists(await task)

    assert asyncio.run(main()) == [vector("a")]


def test_a_large_answer_is_checked_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[threading.Thread] = []
    checked = embedding._checked

    def watch(*arguments: Any) -> Any:
        where.append(threading.current_thread())
        return checked(*arguments)

    monkeypatch.setattr(embedding, "_checked", watch)
    monkeypatch.setattr(embedding, "NUMBERS_ON_THE_LOOP", 2 * DIMS)
    embedder = make(Recorder().coroutine)
    asyncio.run(embedder.aembed_documents(["a", "b"]))
    asyncio.run(embedder.aembed_documents(["c", "d", "e"]))
    assert [thread is threading.main_thread() for thread in where] == [True, False]


def test_an_async_embedder_may_call_back_synchronously_without_a_deadlock() -> None:
    inner = make(Recorder().coroutine)

    async def outer(texts: list[str]) -> list[list[float]]:
        return lists(inner.embed_documents(texts))

    assert lists(make(outer).embed_documents(["a"])) == [vector("a")]


def test_many_threads_share_one_background_loop() -> None:
    recorder = Recorder()
    embedder = make(recorder.coroutine)
    texts = [f"text {number}" for number in range(16)]
    threads = [threading.Thread(target=embedder.embed_documents, args=([text],)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(text for (text,) in recorder.calls) == sorted(texts)
    assert len(set(recorder.threads)) == 1
    assert recorder.threads[0].daemon


def test_context_variables_reach_the_embedder() -> None:
    tenant: ContextVar[str] = ContextVar("tenant")
    seen: list[str] = []

    async def later(texts: list[str]) -> list[list[float]]:
        seen.append(tenant.get())
        return [vector(text) for text in texts]

    def now(texts: list[str]) -> list[list[float]]:
        seen.append(tenant.get())
        return [vector(text) for text in texts]

    tenant.set("acme")
    make(later).embed_documents(["a"])
    asyncio.run(make(now).aembed_documents(["a"]))
    assert seen == ["acme", "acme"]


def test_a_batch_is_one_call_with_the_distinct_texts_in_order() -> None:
    recorder = Recorder()
    found = make(recorder.function).embed_documents(["b", "a", "b", "c", "a"])
    assert recorder.calls == [["b", "a", "c"]]
    assert lists(found) == [vector(text) for text in "babca"]


def test_no_texts_are_no_call() -> None:
    recorder = Recorder()
    assert make(recorder.function).embed_documents([]) == []
    assert asyncio.run(make(recorder.function).aembed_documents([])) == []
    assert recorder.calls == []


def test_texts_arrive_at_the_embedder_as_they_are() -> None:
    recorder = Recorder()
    text = "这是中文 Привет 😀\u2028 C:\\new \\u041f"
    make(recorder.function).embed_documents([text])
    assert recorder.calls == [[text]]


def test_a_text_embedded_before_is_not_embedded_again() -> None:
    recorder = Asymmetric()
    embedder = make(recorder)
    first = embedder.embed_documents(["a", "b"])
    again = embedder.embed_documents(["b", "c", "a"])
    asyncio.run(embedder.aembed_documents(["a", "c"]))
    embedder.embed_query("q")
    asyncio.run(embedder.aembed_query("q"))
    assert recorder.calls == [["a", "b"], ["c"], ("query", "q")]
    assert lists(again) == [first[1].tolist(), vector("c"), first[0].tolist()]


def test_a_function_embeds_a_query_as_the_same_text_of_a_document() -> None:
    recorder = Recorder()
    embedder = make(recorder.function)
    embedder.embed_documents(["a"])
    assert embedder.embed_query("a").tolist() == vector("a")
    assert recorder.calls == [["a"]]


def test_only_the_texts_used_last_are_remembered() -> None:
    recorder = Recorder()
    embedder = make(recorder.function)
    texts = [str(number) for number in range(TEXTS_REMEMBERED)]
    embedder.embed_documents(texts)
    embedder.embed_documents(texts[:1])
    embedder.embed_documents(["one more"])
    del recorder.calls[:]
    embedder.embed_documents([texts[0], texts[1], texts[2], "one more"])
    assert recorder.calls == [[texts[1]]]


def test_a_batch_larger_than_the_memory_is_embedded_whole() -> None:
    recorder = Recorder()
    embedder = make(recorder.function)
    texts = [str(number) for number in range(TEXTS_REMEMBERED + 1)]
    assert lists(embedder.embed_documents(texts)) == [vector(text) for text in texts]
    embedder.embed_documents(texts)
    assert recorder.calls == [texts, ["0"]]


def test_the_vectors_handed_out_cannot_be_changed() -> None:
    embedder = make(Recorder().function)
    for _ in range(2):
        (found,) = embedder.embed_documents(["a"])
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 7.0


def test_a_remembered_vector_does_not_keep_its_batch_in_memory() -> None:
    embedder = make(Recorder().function)
    embedder.embed_documents(["a", "b"])
    assert embedder.embed_documents(["b"])[0].base is None


def test_an_embedder_may_consume_its_list_of_texts() -> None:
    def consuming(texts: list[str]) -> list[list[float]]:
        return [vector(texts.pop(0)) for _ in range(len(texts))]

    texts = ["a", "b"]
    assert lists(make(consuming).embed_documents(texts)) == [vector("a"), vector("b")]
    assert lists(asyncio.run(make(consuming).aembed_documents(texts))) == [vector("a"), vector("b")]


def test_a_later_change_of_the_embedders_own_array_does_not_show() -> None:
    own = np.ones((1, DIMS), np.float32)
    embedder = make(lambda _texts: own)
    (first,) = embedder.embed_documents(["a"])
    own[:] = 9.0
    assert first.tolist() == embedder.embed_documents(["a"])[0].tolist() == [1.0] * DIMS


@pytest.mark.parametrize("form", ["function", "coroutine function", "Embeddings"])
def test_a_wrong_dimension_is_refused_naming_both_numbers(form: str) -> None:
    embedder = make(FORMS[form](), dims=8)
    message = r"index\.dims is 8 but the embedder returned 4 numbers"
    with pytest.raises(Misconfigured, match=message) as caught:
        embedder.embed_documents(["a"])
    assert caught.value.field == "index.dims"
    with pytest.raises(Misconfigured, match=message):
        embedder.embed_query("a")
    with pytest.raises(Misconfigured, match=message):
        asyncio.run(embedder.aembed_query("a"))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], "returned 0 vectors for 2 texts"),
        ([vector("a")] * 3, "returned 3 vectors for 2 texts"),
        (None, "it returned None"),
        ("ab", "it returned 'ab'"),
        ([1.0, 2.0], "it returned 1.0"),
        (["abcd", "efgh"], "it returned 'abcd'"),
        ([["x", 1, 2, 3], [0, 1, 2, 3]], r"it returned \['x', 1, 2, 3\]"),
        ([[[1.0]] * 4, [[1.0]] * 4], r"it returned \[\[1\.0\]"),
        ([vector("a"), vector("b")[:3]], "index.dims is 4 but the embedder returned 3 numbers"),
    ],
)
def test_an_answer_that_is_not_a_vector_for_each_text_is_refused(answer: Any, message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        make(lambda _texts: answer).embed_documents(["a", "b"])


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e39])
def test_a_number_that_is_not_finite_is_refused_and_named(number: float) -> None:
    embedder = make(lambda texts: [vector(text) if text == "fine" else [0, 1, number, 3] for text in texts])
    with pytest.raises(InvalidValue, match=r"as number 2 of the vector of 'bad'") as caught:
        embedder.embed_documents(["fine", "bad"])
    assert str(number) in str(caught.value)
    assert caught.value.field == "index.embed"
    assert lists(embedder.embed_documents(["fine"])) == [vector("fine")]


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_of_the_embedder_passes_through_and_is_not_remembered(is_async: bool) -> None:
    error = ConnectionError("the provider is down")
    failures = [error, error]

    def fails(texts: list[str]) -> list[list[float]]:
        if failures:
            raise failures.pop()
        return [vector(text) for text in texts]

    async def fails_later(texts: list[str]) -> list[list[float]]:
        return fails(texts)

    embedder = make(fails_later if is_async else fails)
    with pytest.raises(ConnectionError) as caught:
        embedder.embed_documents(["a"])
    assert caught.value is error
    with pytest.raises(ConnectionError):
        asyncio.run(embedder.aembed_documents(["a"]))
    assert lists(embedder.embed_documents(["a"])) == [vector("a")]


def test_a_digest_tells_texts_apart_in_sixteen_bytes() -> None:
    texts = ["", "a", "A", "a ", "é", "e\u0301", "\ud800", "中" * 100_000]
    digests = [digest(text) for text in texts]
    assert {len(found) for found in digests} == {16}
    assert len(set(digests)) == len(texts)
    assert digest("a") == digests[1]
