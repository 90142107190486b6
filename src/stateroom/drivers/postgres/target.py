"""What a search by vector is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stateroom.drivers.postgres.scope import Scope
from stateroom.drivers.postgres.session import LIVE
from stateroom.drivers.postgres.where import Condition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Target"]


class Target(NamedTuple):
    """What a search by vector is for: the live items of ``scope`` that match ``condition``.

    Whoever searches may leave out what scores below ``least``.
    """

    scope: Scope
    condition: Condition | None
    vector: NDArray[np.float32]
    least: float | None

    @property
    def is_everything(self) -> bool:
        """Whether every item is meant."""
        return self.scope.is_all and self.condition is None

    @property
    def where(self) -> str:
        """The condition on live items ``i``, in a statement that begins with ``CLOCK``."""
        return f"{self.matches} and {LIVE}"

    @property
    def matches(self) -> str:
        """The condition on items ``i``, whether live or not."""
        return f"{self.scope.sql} and {'true' if self.condition is None else self.condition.sql}"

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of ``matches``."""
        return {**self.scope.parameters, **({} if self.condition is None else self.condition.parameters)}
