"""The library by itself: put, get, search by words, filter, namespaces, time to live, conditional edits."""

from __future__ import annotations

import tempfile
from pathlib import Path

from stateroom import ManualClock, SqliteStore
from stateroom.errors import Conflict

NOTES = ("ana", "notes")


def main() -> None:
    """Do each once, in a file of its own, with a clock that moves only when it is told to."""
    clock = ManualClock()
    with (
        tempfile.TemporaryDirectory() as folder,
        SqliteStore(Path(folder) / "memory.db", clock=clock) as store,
    ):
        put_and_get(store)
        search_and_filter(store)
        namespaces(store)
        edit_without_losing_anything(store)
        time_to_live(store, clock)


def put_and_get(store: SqliteStore) -> None:
    """A value is a JSON object; what comes out equals what went in."""
    store.put(NOTES, "trip", {"text": "Flying to Lisbon, booking QX7-44B", "kind": "travel", "nights": 4})
    store.put(NOTES, "cello", {"text": "Mira's cello lessons are on Tuesdays", "kind": "family"})
    store.put(NOTES, "export", {"text": "The nightly export failed with ERR_SYNC_4711", "kind": "work"})
    item = store.get(NOTES, "trip")
    assert item is not None
    print(f"get         {item.key}: {item.value['text']} (revision {item.revision})")


def search_and_filter(store: SqliteStore) -> None:
    """Without an embedder a query is a full-text search: stems, parts of identifiers, ranked by BM25."""
    for query in ("lesson", "sync 4711", "qx7-44b"):
        (best, *_) = store.search(("ana",), query=query)
        print(f"search      {query!r} finds {best.key}, score {best.score:.2f}")
    # A filter looks at the top-level keys of values; without a query the latest put comes first.
    kinds = {"kind": {"$in": ["travel", "family"]}, "nights": {"$exists": False}}
    print(f"filter      {[item.key for item in store.search(NOTES, filter=kinds)]}")
    print(f"count       {store.count(NOTES, filter={'nights': {'$gte': 3}})} of {store.count(NOTES)}")


def namespaces(store: SqliteStore) -> None:
    """Namespaces are paths of labels; a search looks at and below one, by whole labels."""
    store.put(("ben", "notes"), "trip", {"text": "Flying to Lisbon too"})
    store.put(("ana", "settings"), "theme", {"dark": True}, index=False)
    print(f"namespaces  {store.list_namespaces(prefix=('*', 'notes'))}")
    hers, everybodys = store.search(("ana",), query="lisbon"), store.search((), query="lisbon")
    print(f"isolated    {len(hers)} hit for Ana, of {len(everybodys)}")


def edit_without_losing_anything(store: SqliteStore) -> None:
    """A write can be made conditional on the revision that was read."""
    item = store.get(NOTES, "trip")
    assert item is not None
    store.put(NOTES, "trip", item.value | {"nights": 5}, if_revision=item.revision)
    try:
        store.put(NOTES, "trip", item.value | {"seat": "14A"}, if_revision=item.revision)
    except Conflict as conflict:
        print(f"conflict    {conflict.code}: somebody else has edited it, nothing was overwritten")
    fresh = store.get(NOTES, "trip")
    assert fresh is not None
    edited = store.put_item(NOTES, "trip", fresh.value | {"seat": "14A"}, if_revision=fresh.revision)
    print(f"edited      nights {edited.value['nights']}, seat {edited.value['seat']}")


def time_to_live(store: SqliteStore, clock: ManualClock) -> None:
    """An item with a time to live is absent as soon as its minutes are over; a read starts them anew."""
    store.put(NOTES, "code", {"text": "The one-time code is 991"}, ttl=10)
    clock.advance(minutes=9)
    item = store.get(NOTES, "code")
    assert item is not None
    print(f"ttl         read after 9 of {item.ttl:.0f} minutes, which begin again")
    clock.advance(minutes=11)
    print(f"expired     {store.get(NOTES, 'code')}, and {store.sweep_ttl()} item swept away")


if __name__ == "__main__":
    main()
