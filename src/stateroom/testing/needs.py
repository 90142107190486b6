"""What stands in for a test where the store lacks the capability that it is about."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar

import pytest

from stateroom.contract.items import Capability
from stateroom.errors import LimitExceeded, Misconfigured, NotSupported
from stateroom.model.limits import NAMESPACE_LABELS_MAX, VALUE_BYTES_MAX
from stateroom.stores.operations import DeleteItem, PutItem
from stateroom.testing.embedders import Coordinates
from stateroom.testing.harness import Memory, Opens
from stateroom.testing.snapshot import snapshot

__all__ = ["needs"]

Test = TypeVar("Test", bound=Callable[..., None])


def needs(*capabilities: Capability) -> Callable[[Test], Test]:
    """Mark a test method as one about capabilities that a store may lack.

    Where one is lacking, the test is that the store refuses whatever asks for it, by the name of the
    argument, and stays as it was; or, where nothing asks for it, that the store keeps what is promised
    without it. Whether batches are atomic, or what a second opening sees, a test asks of
    ``capabilities`` itself.
    """
    instead = {capability: _INSTEAD[capability] for capability in capabilities}

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        asked = "opens" in signature.parameters

        @wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            opens = fixtures["opens"] if asked else fixtures.pop("opens")
            missing = [each for each in instead if each not in opens.capabilities]
            if missing:
                instead[missing[0]](opens)
            else:
                test(*args, **fixtures)

        if not asked:
            # pytest finds out from the signature which fixtures to pass.
            extra = inspect.Parameter("opens", inspect.Parameter.KEYWORD_ONLY)
            parameters = [*signature.parameters.values(), extra]
            run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]  # with one more argument, which pytest passes

    return decorate


def _refused(memory: Memory, field: str, method: str, /, *args: Any, **options: Any) -> None:
    before = snapshot(memory, "word")
    with pytest.raises(NotSupported) as caught:
        memory.call(method, *args, **options)
    assert (caught.value.code, caught.value.field) == ("not_supported", field)
    assert snapshot(memory, "word") == before


def _refuses_conditions(opens: Opens) -> None:
    memory = opens()
    memory.put(("a",), "k", {"n": 1})
    for field, condition in (("if_absent", True), ("if_revision", 1)):
        for method in ("put", "put_item"):
            _refused(memory, field, method, ("a",), "k", {"n": 2}, **{field: condition})
    _refused(memory, "if_revision", "delete", ("a",), "k", if_revision=1)
    first = PutItem(("a",), "first", {})
    _refused(memory, "if_absent", "batch", [first, PutItem(("a",), "k", {}, if_absent=True)])
    _refused(memory, "if_revision", "batch", [first, DeleteItem(("a",), "k", 1)])


def _refuses_ttl(opens: Opens) -> None:
    memory = opens()
    memory.put(("a",), "k", {"n": 1}, ttl=None)
    for method in ("put", "put_item"):
        _refused(memory, "ttl", method, ("a",), "k", {"n": 2}, ttl=1)
    _refused(memory, "ttl", "batch", [PutItem(("a",), "first", {}), PutItem(("a",), "k", {}, ttl=1)])
    _refuses_option(opens, ttl={"default_ttl": 1})


def _refuses_text(opens: Opens) -> None:
    memory = opens()
    memory.put(("a",), "k", {"text": "word"})
    _refused(memory, "query", "search", ("a",), query="word")
    _refused(memory, "mode", "search", ("a",), query="word", mode="text")
    assert memory.keys(("a",), query="", filter={"text": "word"}) == ["k"]


def _refuses_vectors(opens: Opens) -> None:
    memory = opens()
    memory.put(("a",), "k", {"text": "1 0"})
    _refused(memory, "mode", "search", ("a",), query="1 0", mode="vector")
    _refused(memory, "mode", "search", ("a",), query="1 0", mode="hybrid")
    _refuses_option(opens, index={"embed": Coordinates(), "dims": 2})


def _refuses_option(opens: Opens, **options: Any) -> None:
    """See that an option without any effect is refused by the opening, at the latest by the first use."""
    with pytest.raises((Misconfigured, NotSupported)):
        opens(**options).call("setup")


def _finds_exact_words(opens: Opens) -> None:
    """See that text search finds what holds the very word, below its prefix alone, the best first."""
    memory = opens()
    texts = {"two": "giraffe and giraffe", "one": "giraffe and okapi", "none": "zebra"}
    for key, text in texts.items():
        memory.put(("a", key), key, {"t": text, "n": len(text)})
        memory.put(("ab", key), key, {"t": text})
    for mode in ("auto", "text"):
        found = memory.search(("a",), query="giraffe", mode=mode)
        assert {(hit.namespace, hit.key) for hit in found} == {(("a", key), key) for key in ("one", "two")}
        scores = [hit.score for hit in found if hit.score is not None]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) == 2
        assert min(scores) > 0
    assert memory.keys(("a", "one"), query="giraffe") == ["one"]
    assert memory.keys(("a",), query="giraffe", filter={"n": len(texts["one"])}) == ["one"]
    memory.put(("a", "one"), "one", {"t": "okapi"})
    memory.delete(("a", "two"), "two")
    assert memory.search(("a",), query="giraffe") == []
    assert len(memory.search((), query="giraffe")) == 2


def _keeps_times(opens: Opens) -> None:
    """See that times say when an item was made, and never run back."""
    memory = opens()
    first, again = memory.put_item(("a",), "k", {"n": 1}), memory.put_item(("a",), "k", {"n": 2})
    assert first.created_at == again.created_at <= first.updated_at <= again.updated_at
    for number in range(5):
        memory.put(("a",), str(number), {})
    found = memory.search(("a",))
    moments = [hit.updated_at for hit in found]
    assert moments == sorted(moments, reverse=True)
    assert {hit.key for hit in found} == {"k", *map(str, range(5))}
    assert [memory.keys(("a",), limit=1, offset=place)[0] for place in range(6)] == [hit.key for hit in found]


def _keeps_members(opens: Opens) -> None:
    """See that objects come out with all of their members, at every level."""
    memory = opens()
    value = {"z": 1, "a": {"y": 1, "b": [{"q": 1, "c": 2}]}, "m": None}
    assert memory.put_item(("a",), "k", value).value == memory.read(("a",), "k").value == value


def _refuses_what_it_cannot_hold(opens: Opens) -> None:
    """See that what is too much is refused by name and changes nothing; what is not, is kept."""
    memory = opens()
    memory.put(("a",), "k", {"t": "word"})
    deepest = tuple(f"level-{depth}" for depth in range(NAMESPACE_LABELS_MAX))
    largest = {"t": "x" * (VALUE_BYTES_MAX - len('{"t":""}'))}
    for namespace, value, field in ((deepest, {}, "namespace"), (("large",), largest, "value")):
        before = snapshot(memory, "word")
        try:
            memory.put(namespace, "k", value, index=False)
        except LimitExceeded:
            with pytest.raises(LimitExceeded) as caught:
                memory.batch([PutItem(("a",), "first", {}), PutItem(namespace, "k", value, index=False)])
            assert (caught.value.code, caught.value.field) == ("limit_exceeded", field)
            assert snapshot(memory, "word") == before
            assert memory.get(namespace, "k") is None
            assert memory.search(namespace) == []
        else:
            assert memory.read(namespace, "k").value == value
        memory.delete(namespace, "k")


_INSTEAD: Final[Mapping[Capability, Callable[[Opens], None]]] = {
    Capability.CONDITIONAL: _refuses_conditions,
    Capability.TTL: _refuses_ttl,
    Capability.TEXT: _refuses_text,
    Capability.VECTOR: _refuses_vectors,
    Capability.ANALYSIS: _finds_exact_words,
    Capability.EXACT_TIMES: _keeps_times,
    Capability.KEY_ORDER: _keeps_members,
    Capability.FULL_LIMITS: _refuses_what_it_cannot_hold,
}
