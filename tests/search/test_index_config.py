"""The settings of an index: defaults, refusals by name, and what a query means without a mode."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from stateroom.errors import Misconfigured
from stateroom.search.index_config import (
    MAX_DIMS,
    SOME_STORES,
    IndexSettings,
    check_index_keys,
    known_dims,
    parse_index_config,
)


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, 2.0] for _ in texts]


class KnowsItsSize:
    dims = 4

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[0.0] * 4 for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(len(text))] * 4


def refused(config: Any, **options: Any) -> Misconfigured:
    with pytest.raises(Misconfigured) as caught:
        parse_index_config(config, **options)
    assert caught.value.field is not None
    assert caught.value.field.partition("[")[0] in str(caught.value)
    return caught.value


def test_without_a_config_text_alone_is_searched_over_the_whole_value() -> None:
    settings = parse_index_config(None)
    assert settings == IndexSettings()
    assert (settings.fields, settings.text, settings.dims, settings.embed) == (("$",), True, None, None)
    assert (settings.language, settings.default_mode, settings.index_config) == ("english", "text", None)


def test_langgraphs_own_config_means_what_it_means_there() -> None:
    config = {"dims": 2, "embed": embed, "fields": ["text", "meta.title"]}
    settings = parse_index_config(config)
    assert (settings.dims, settings.embed, settings.fields) == (2, embed, ("text", "meta.title"))
    assert (settings.distance_type, settings.default_mode) == ("cosine", "vector")
    assert settings.index_config is config


def test_every_setting_is_kept() -> None:
    config = {
        "dims": 8,
        "embed": embed,
        "fields": ("a",),
        "distance_type": "l2",
        "hnsw": True,
        "vector_type": "halfvec",
        "language": "german",
        "text": True,
        "mode": "vector",
        "min_score": -3,
        "vector_cache_mb": 0,
    }
    settings = parse_index_config(MappingProxyType(config), supports=SOME_STORES)
    assert settings == IndexSettings(
        8, embed, ("a",), "l2", True, "halfvec", "german", True, "vector", -3.0, 0
    )  # fmt: skip


@pytest.mark.parametrize("name", ["distance_type", "min_score", "vector_cache_mb", "hnsw", "vector_type"])
def test_a_setting_about_vectors_without_vectors_is_refused(name: str) -> None:
    values = {
        "distance_type": "l2",
        "min_score": 1,
        "vector_cache_mb": 1,
        "hnsw": True,
        "vector_type": "vector",
    }
    assert refused({name: values[name]}, supports=SOME_STORES).field == f"index.{name}"


def test_a_language_without_text_search_is_refused() -> None:
    config = {"embed": embed, "dims": 8, "text": False, "language": "german"}
    assert refused(config).field == "index.language"


@pytest.mark.parametrize(
    ("keys", "field"), [("kind", "index_keys"), ({"a"}, "index_keys"), (["a", 1], "index_keys[1]")]
)
def test_index_keys_must_be_a_list_of_strings(keys: Any, field: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        check_index_keys(keys)
    assert caught.value.field == field


def test_index_keys_lose_their_repeats_and_keep_their_order() -> None:
    assert check_index_keys(["b", "a", "b"]) == ("b", "a")


def test_a_setting_that_is_none_counts_as_absent() -> None:
    names = "dims embed fields distance_type hnsw vector_type language text mode min_score vector_cache_mb"
    assert parse_index_config(dict.fromkeys(names.split())) == IndexSettings()


@pytest.mark.parametrize("config", ["local", ["dims"], 3, True])
def test_a_config_that_is_no_mapping_is_refused(config: Any) -> None:
    assert refused(config).field == "index"


@pytest.mark.parametrize("name", ["Dims", "m", 3])
def test_an_unknown_setting_is_refused_with_the_known_ones(name: Any) -> None:
    error = refused({name: {"kind": "flat"}})
    assert error.field == f"index.{name}"
    assert "vector_cache_mb" in str(error)


@pytest.mark.parametrize(("name", "value"), [("hnsw", True), ("hnsw", False), ("vector_type", "halfvec")])
def test_a_setting_that_means_nothing_to_the_store_is_refused(name: str, value: Any) -> None:
    config = {"dims": 2, "embed": embed, name: value}
    assert refused(config).field == f"index.{name}"
    assert getattr(parse_index_config(config, supports=frozenset({name})), name) == value


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("dims", [0, -1, MAX_DIMS + 1, 8.0, "8", True]),
        ("embed", [3, ["local"], KnowsItsSize, {"provider": "x"}]),
        ("fields", ["text", [], False, True, [1], {"a": 1}]),
        ("distance_type", ["dot", "COSINE", 1, ["l2"]]),
        ("hnsw", [1, "yes", {"m": 16}]),
        ("vector_type", ["bit", 1]),
        ("language", ["", 3]),
        ("text", [0, "false"]),
        ("mode", ["keyword", "", True]),
        ("min_score", ["0.5", True, float("nan"), float("inf")]),
        ("vector_cache_mb", [-1, 1.5, "512", True]),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(name: str, values: list[Any]) -> None:
    for value in values:
        config = {"dims": 2, "embed": embed} | {name: value}
        error = refused(config, supports=frozenset({"hnsw", "vector_type"}))
        assert error.field is not None
        assert error.field.startswith(f"index.{name}"), value


@pytest.mark.parametrize("dims", [1, MAX_DIMS])
def test_the_least_and_the_most_dimensions_are_accepted(dims: int) -> None:
    assert parse_index_config({"dims": dims, "embed": embed}).dims == dims


@pytest.mark.parametrize(("vector_type", "most"), [("vector", 2_000), ("halfvec", 4_000)])
def test_hnsw_is_refused_early_beyond_the_dimensions_it_can_index(vector_type: str, most: int) -> None:
    supports = frozenset({"hnsw", "vector_type"})
    config = {"embed": embed, "hnsw": True, "vector_type": vector_type, "dims": most}
    assert parse_index_config(config, supports=supports).hnsw is True
    assert refused(config | {"dims": most + 1}, supports=supports).field == "index.hnsw"
    assert parse_index_config(config | {"dims": most + 1, "hnsw": False}, supports=supports).dims == most + 1


def test_an_embedder_and_its_dimensions_belong_together() -> None:
    assert refused({"embed": embed}).field == "index.dims"
    assert refused({"embed": "openai:text-embedding-3-small"}).field == "index.dims"
    assert refused({"dims": 8}).field == "index.embed"


def test_dimensions_that_the_embedder_knows_need_not_be_given_and_may_not_differ() -> None:
    assert parse_index_config({"embed": "local"}).dims == 256
    assert parse_index_config({"embed": KnowsItsSize()}).dims == 4
    assert "index.dims is 8 but the embedder makes 256 numbers" in str(refused({"embed": "local", "dims": 8}))
    assert "index.dims is 8 but the embedder makes 4 numbers" in str(
        refused({"embed": KnowsItsSize(), "dims": 8})
    )
    assert known_dims(embed) is None


@pytest.mark.parametrize(
    ("config", "mode"),
    [
        ({}, "text"),
        ({"text": False}, None),
        ({"dims": 2, "embed": embed}, "vector"),
        ({"dims": 2, "embed": embed, "text": False}, "vector"),
        ({"dims": 2, "embed": embed, "mode": "text"}, "text"),
        ({"dims": 2, "embed": embed, "mode": "hybrid"}, "hybrid"),
        ({"embed": "local"}, "hybrid"),
        ({"embed": "local", "mode": "auto"}, "vector"),
        ({"embed": "local", "text": False}, "vector"),
    ],
)
def test_a_query_without_a_mode_means_what_the_index_can_do(config: dict[str, Any], mode: str | None) -> None:
    assert parse_index_config(config).default_mode == mode


@pytest.mark.parametrize(
    "config",
    [
        {"mode": "vector"},
        {"mode": "hybrid"},
        {"mode": "text", "text": False},
        {"mode": "hybrid", "text": False, "embed": "local"},
    ],
)
def test_a_mode_that_the_index_cannot_serve_is_refused(config: dict[str, Any]) -> None:
    assert refused(config).field == "index.mode"


@pytest.mark.parametrize(
    ("name", "says"), [("ann_index_config", "hnsw: True"), ("text_fields", "write fields")]
)
def test_other_libraries_settings_are_refused_with_ours(name: str, says: str) -> None:
    with pytest.raises(Misconfigured, match=says) as caught:
        parse_index_config({name: {}})
    assert caught.value.field == f"index.{name}"
