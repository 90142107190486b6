"""The tests of Deep Agents that must fail on our backends, each with its reason."""

from __future__ import annotations

from typing import Final

import pytest

from .holding import INTERNALS, RULE, SIGNED, SWAP, Expected  # noqa: TID252  # as in deep_agents.py

__all__ = ["AS_LINES", "BESIDE_THEIR_DEFAULTS", "EXPECTED", "ON_OUR_STORES"]

UNIT: Final = "tests/unit_tests"
BACKENDS: Final = f"{UNIT}/backends"
STORE: Final = f"{BACKENDS}/test_store_backend.py"
MIDDLEWARE: Final = f"{UNIT}/test_middleware.py::TestFilesystemMiddleware"

EXPECTED: Final = (
    Expected(
        f"{STORE}::test_store_backend_namespace_is_required",
        SIGNED,
        "it wants a backend without a namespace refused; ours is (assistant_id, 'filesystem') then",
        pytest.fail.Exception,
    ),
    Expected(
        f"{STORE}::test_store_backend_rejects_legacy_lists_with_non_string_items",
        SIGNED,
        "it wants read to raise TypeError for an item that is no file; ours answers an error that names it",
        pytest.fail.Exception,
    ),
    *(
        Expected(
            f"{STORE}::test_store_backend_{delete}_treats_wildcard_as_literal_key",
            RULE,
            "it wants the path '*' answered as written; ours is the absolute '/*', under which it is listed",
        )
        for delete in ("delete", "adelete")
    ),
    *(
        Expected(
            f"{MIDDLEWARE}::test_search_store_paginated_{case}",
            INTERNALS,
            "it calls StoreBackend._search_store_paginated",
            AttributeError,
        )
        for case in (
            "empty",
            "less_than_page_size",
            "exact_page_size",
            "multiple_pages",
            "with_filter",
            "custom_page_size",
        )
    ),
    Expected(
        f"{BACKENDS}/test_composite_backend.py::test_get_backend_and_key_consistency",
        INTERNALS,
        "it calls CompositeBackend._get_backend_and_key",
        AttributeError,
    ),
)
"""On every store, in either format."""

ON_OUR_STORES: Final = tuple(
    Expected(
        f"{STORE}::test_store_backend_{delete}_uses_single_batch_call",
        INTERNALS,
        "it looks for LangGraph's PutOp of None in what the store is asked; ours is asked for DeleteItem, in "
        "one batch too",
    )
    for delete in ("delete", "adelete")
)

BESIDE_THEIR_DEFAULTS: Final = tuple(
    Expected(
        f"{MIDDLEWARE}::test_init_{case}",
        SWAP,
        "it wants the default backend to be of the class that it has imported, which is ours here; the "
        "default is Deep Agents'",
    )
    for case in ("default", "custom_system_prompt_default", "custom_tool_descriptions_default")
)
"""Where the defaults of Deep Agents stay its own."""


def _lines(test: str, raises: type[BaseException] = AssertionError) -> Expected:
    reason = "it wants the text stored as one string; the documented form, our default, is a list of lines"
    return Expected(f"{UNIT}/{test}", SIGNED, reason, raises)


AS_LINES: Final = (
    _lines("backends/test_composite_backend.py::test_composite_backend_intercept_large_tool_result"),
    _lines(
        "backends/test_composite_backend.py::test_composite_backend_intercept_large_tool_result_routed_to_store"
    ),
    _lines("backends/test_file_format.py::test_store_upload_text", KeyError),
    _lines("backends/test_file_format.py::test_store_upload_utf8_content_stored_as_text", KeyError),
    _lines("backends/test_state_backend.py::test_state_backend_edit_migrates_legacy_list_content"),
    _lines("backends/test_store_backend.py::test_store_backend_edit_migrates_legacy_list_content"),
    _lines("backends/test_store_backend.py::test_store_backend_intercept_large_tool_result"),
    _lines("backends/test_store_backend.py::test_store_backend_write_migrates_legacy_list_content"),
    _lines("backends/test_store_backend_async.py::test_store_backend_aedit_migrates_legacy_list_content"),
    _lines("backends/test_store_backend_async.py::test_store_backend_aintercept_large_tool_result_async"),
    _lines("backends/test_store_backend_async.py::test_store_backend_awrite_migrates_legacy_list_content"),
    _lines("backends/test_store_backend_async.py::test_store_backend_intercept_large_tool_result_async"),
    _lines(
        "test_end_to_end.py::TestStateBackendConfigKeys"
        "::test_state_backend_upload_files_works_in_graph_context"
    ),
    *(
        _lines(f"test_end_to_end.py::TestLargeHumanMessageEviction::test_{case}")
        for case in ("large_human_message_evicted_before_model_call", "multi_turn_eviction")
    ),
    _lines("test_file_system_tools.py::test_edit_file_replace_all"),
    _lines("test_file_system_tools.py::test_edit_file_single_replacement"),
    _lines("test_file_system_tools.py::test_parallel_write_file_calls_trigger_list_reducer"),
    _lines(
        "test_middleware.py::TestFilesystemMiddleware::test_mixed_content_blocks_preserves_non_text",
        AttributeError,
    ),
    _lines("test_middleware.py::TestFilesystemMiddleware::test_multiple_text_blocks_joins_text"),
    _lines("test_middleware.py::TestFilesystemMiddleware::test_single_text_block_extracts_text_directly"),
)
"""With text as a list of lines."""
