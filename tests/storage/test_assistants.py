"""Assistants of every storage."""

from __future__ import annotations

import pytest
from typing_extensions import override

from stateroom.contract.assistants import AssistantChange
from stateroom.contract.storage import Storage
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.testing.parts.storage_assistant_search import make_assistant
from stateroom.testing.parts.storage_assistants import AssistantSuite
from stateroom.testing.parts.storage_cron_search import make_cron
from stateroom.testing.storage_harness import OpensStorage
from tests.storage.tables import rows


class TestAssistants(AssistantSuite):
    """The suite, on each kind of storage."""

    @pytest.fixture
    @override
    def new_storage(self, any_storage: OpensStorage) -> OpensStorage:
        return any_storage

    def test_nothing_is_left_of_an_assistant_that_was_deleted(self, storage: Storage) -> None:
        assert isinstance(storage, SqlStorage)
        make_assistant(storage, metadata={"n": 1})
        storage.assistants.update("a", AssistantChange(metadata={"m": [2]}))
        make_cron(storage, assistant_id="a", metadata={"n": 1})
        storage.assistants.delete("a")
        assert (
            rows(storage, "assistant", "assistant_version", "assistant_term", "cron", "cron_term") == [0] * 5
        )

    def test_terms_are_those_of_the_active_version(self, storage: Storage) -> None:
        assert isinstance(storage, SqlStorage)
        make_assistant(storage, metadata={"n": 1})
        storage.assistants.update("a", AssistantChange(metadata={"n": 2, "m": 2}))
        assert rows(storage, "assistant_term") == [2]
        storage.assistants.activate("a", 1)
        assert rows(storage, "assistant_term") == [1]
