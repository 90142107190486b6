"""A vector search of one scope looks at few of everybody else's vectors."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from stateroom import PutItem, SqliteStore
from stateroom.drivers.sqlite import ranking


def embed(texts: list[str]) -> list[list[float]]:
    return [[float(number) for number in text.split()] for text in texts]


def test_neighbours_that_are_nearer_are_not_all_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "KEYED_ITEMS", 2)
    monkeypatch.setattr(ranking, "FIRST_SIFT", 2)
    monkeypatch.setattr(ranking, "SIFT_MAX", 4)
    sifted: list[int] = []
    admitted = ranking._admitted

    def counted(connection: sqlite3.Connection, asked: ranking.Asked, revisions: list[int]) -> set[int]:
        sifted.extend(revisions)
        return admitted(connection, asked, revisions)

    monkeypatch.setattr(ranking, "_admitted", counted)
    angles = np.linspace(0.0, 0.5, 400).tolist()
    with SqliteStore(index={"embed": embed, "dims": 2, "fields": ["at"]}) as store:
        store.batch([PutItem(("near",), f"k{n}", {"at": f"1 {angle}"}) for n, angle in enumerate(angles)])
        store.batch([PutItem(("far",), f"k{n}", {"at": f"{-n} 1"}) for n in range(5)])
        found = store.search(("far",), query="1 0", mode="vector", limit=3)
        looked_at = len(sifted)
        everybody = store.search((), query="1 0", mode="vector", limit=300)
    assert [hit.key for hit in found] == ["k0", "k1", "k2"]
    assert looked_at < 50
    assert [hit.key for hit in everybody] == [f"k{n}" for n in range(300)]
