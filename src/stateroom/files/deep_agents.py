"""Where Deep Agents looks at classes: its own take ours for theirs, and its factories work again."""

from __future__ import annotations

from typing import Any

from stateroom.errors import Misconfigured
from stateroom.files.composite import CompositeBackend
from stateroom.files.factory import BackendFactory, FactoryBackend
from stateroom.files.permissions import PermittedBackend
from stateroom.files.protocol import HAS_DEEP_AGENTS, BackendProtocol
from stateroom.files.state import StateBackend

__all__ = ["create_deep_agent"]


def create_deep_agent(
    *args: Any, backend: BackendProtocol | BackendFactory | None = None, **kwargs: Any
) -> Any:
    """Make an agent as ``deepagents.create_deep_agent`` does, with a backend or a factory of one.

    Deep Agents has taken no factories since 0.7: ``backend=lambda config: StoreBackend(config)`` works here
    with every release. All other arguments are its own. Needs the extra ``deepagents``.
    """
    if not HAS_DEEP_AGENTS:
        raise Misconfigured("create_deep_agent needs Deep Agents: pip install 'stateroom[deepagents]'")
    from deepagents import create_deep_agent as create

    if callable(backend) and not isinstance(backend, BackendProtocol):
        backend = FactoryBackend(backend)
    made: Any = backend
    return create(*args, backend=made, **kwargs)


def _register() -> None:
    """Have ``isinstance`` say of our backends what Deep Agents asks of its own.

    Only for what it takes for its ``StateBackend`` does it give the state the files that one keeps there.
    """
    from deepagents.backends import CompositeBackend as TheirComposite
    from deepagents.backends import StateBackend as TheirState

    TheirComposite.register(CompositeBackend)
    for ours in (StateBackend, FactoryBackend, PermittedBackend):
        TheirState.register(ours)


if HAS_DEEP_AGENTS:
    _register()
