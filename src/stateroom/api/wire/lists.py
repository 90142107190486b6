"""What the lists of all resources have in common."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from pydantic import BaseModel, Field, create_model

from stateroom.clock import microseconds_to_datetime
from stateroom.model.paging import NEWEST, Sort

__all__ = ["SortOrder", "part_of", "picked", "sort_of", "time_text"]

SortOrder = Literal["asc", "desc"]


def sort_of(field: str | None, order: SortOrder | None) -> Sort:
    """Return the order that a body asks for, by default that of creation, the newest first."""
    return Sort(field or NEWEST.field, order != "asc")


def time_text(microseconds: int) -> str:
    """Return a time as clients read it."""
    return microseconds_to_datetime(microseconds).isoformat()


def picked(found: dict[str, Any], select: Collection[str] | None) -> dict[str, Any]:
    """Return some fields of an answer, by default all."""
    return found if not select else {name: found[name] for name in found if name in select}


def part_of(answer: type[BaseModel]) -> Any:
    """Return the model of an answer that has only those fields which were selected."""
    fields: dict[str, Any] = {
        name: (field.annotation, Field(default_factory=lambda: None))
        for name, field in answer.model_fields.items()
    }
    return create_model(f"{answer.__name__}Part", __doc__=answer.__doc__, **fields)
