"""What stands in for a test where the store lacks the capability that it is about."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar

import pytest

from stateroom.contract.items import Capability
from stateroom.errors import Misconfigured, NotSupported
from stateroom.stores.operations import DeleteItem, PutItem
from stateroom.testing.embedders import Coordinates
from stateroom.testing.harness import Memory, Opens
from stateroom.testing.snapshot import snapshot

__all__ = ["needs"]

Test = TypeVar("Test", bound=Callable[..., None])


def needs(*capabilities: Capability) -> Callable[[Test], Test]:
    """Mark a test method as one about capabilities that a store may lack.

    Where one is lacking, the test is that the store refuses whatever asks for it, by the name of the
    argument, and stays as it was. Only what can be refused can be needed: whether batches are atomic,
    or what a second opening sees, a test asks of ``capabilities`` itself.
    """
    refusals = {capability: _REFUSALS[capability] for capability in capabilities}

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        asked = "opens" in signature.parameters

        @wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            opens = fixtures["opens"] if asked else fixtures.pop("opens")
            missing = [each for each in refusals if each not in opens.capabilities]
            if missing:
                refusals[missing[0]](opens)
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


_REFUSALS: Final[Mapping[Capability, Callable[[Opens], None]]] = {
    Capability.CONDITIONAL: _refuses_conditions,
    Capability.TTL: _refuses_ttl,
    Capability.TEXT: _refuses_text,
    Capability.VECTOR: _refuses_vectors,
}
