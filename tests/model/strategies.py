"""What Hypothesis draws for the tests of the model."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

__all__ = ["json_objects", "json_texts", "json_values", "labels", "namespaces"]

# Few names, so that what is drawn twice often meets itself.
_names = st.sampled_from(["a", "b", "a.b", "$x", "", "ключ"])

json_texts: st.SearchStrategy[str] = st.one_of(
    st.sampled_from(["", "a", "b", "ab", "null", "\\u0000", "1"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
)

_scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 2.0**53]),
    st.floats(allow_nan=False, allow_infinity=False),
    json_texts,
)

json_values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(_names, json_texts), inner, max_size=4)
    ),
    max_leaves=10,
)

json_objects: st.SearchStrategy[dict[str, Any]] = st.dictionaries(_names, json_values, max_size=5)

labels: st.SearchStrategy[str] = st.one_of(
    st.sampled_from(["a", "b", "ab", "*", "a\x01", "\x01", "é", "\uffff", "\U0001f600"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0."), min_size=1, max_size=4),
)

namespaces: st.SearchStrategy[tuple[str, ...]] = st.lists(labels, max_size=4).map(tuple)
