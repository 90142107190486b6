"""Search by meaning with the local embedder: no key, no network, and a score that explains itself."""

from __future__ import annotations

import sys

from stateroom import InMemoryStore, SearchItem
from stateroom.errors import Misconfigured

FACTS = {
    "food": "I never eat meat.",
    "music": "My daughter Mira plays the cello.",
    "home": "I moved to a house by the sea last spring.",
    "work": "My nightly export keeps failing with ERR_SYNC_4711.",
    "trip": "I'm flying to Lisbon on Friday, booking code QX7-44B.",
}


def main() -> None:
    """Ask the same questions by words, by vectors, and by both."""
    try:
        # `embed="local"` searches hybrid unless told otherwise. It needs: pip install "stateroom[local]".
        store = InMemoryStore(index={"embed": "local", "fields": ["text"]})
    except Misconfigured as error:
        sys.exit(f"This example needs the local embedder. {error}")
    with store:
        for key, text in FACTS.items():
            store.put(("ana", "facts"), key, {"text": text})
        for question in ("Which vegetarian restaurant would suit me?", "What was ERR_SYNC_4711?"):
            print(question)
            for mode in ("text", "vector", "hybrid"):
                hits = store.search(("ana",), query=question, mode=mode, limit=2, explain=True)
                print(f"  {mode:7} {'; '.join(map(told, hits)) or 'nothing'}")


def told(hit: SearchItem) -> str:
    """Say which item it is, how it scored, and what the score is made of."""
    parts = {name: part for name, part in (hit.components or {}).items() if part is not None}
    return f"{hit.key} {hit.score:.2f} ({', '.join(f'{name} {part:.2f}' for name, part in parts.items())})"


if __name__ == "__main__":
    main()
