"""An embedder of your own: any function from texts to vectors, sync or async, called once a batch."""

from __future__ import annotations

from langgraph.store.base import PutOp

from stateroom import SqliteStore
from stateroom.errors import Misconfigured

TOPICS = {
    "animal": ("cat", "dog", "horse", "pet", "tail"),
    "food": ("apple", "bread", "cook", "eat", "soup"),
    "travel": ("city", "flight", "hotel", "passport", "train"),
}
calls: list[int] = []


def embed(texts: list[str]) -> list[list[float]]:
    """Count the words of three topics: a toy, where your model or its service would be."""
    calls.append(len(texts))
    counted = [[sum(word in text.lower() for word in words) for words in TOPICS.values()] for text in texts]
    # Every text gets a little of everything, since a vector of zeros has no direction.
    return [[count + 0.1 for count in counts] for counts in counted]


def main() -> None:
    """Store some texts in one batch, and search by their vectors."""
    with SqliteStore(index={"embed": embed, "dims": len(TOPICS), "fields": ["text"]}) as store:
        texts = ["The dog wags its tail", "Bread goes with soup", "The night train to the old city"]
        store.batch([PutOp(("notes",), f"n{number}", {"text": text}) for number, text in enumerate(texts)])
        print(f"embedded    {calls[0]} texts in {len(calls)} call")
        # A put that leaves the text as it is does not ask the embedder again.
        store.put(("notes",), "n0", {"text": texts[0], "seen": True})
        print(f"unchanged   {len(calls)} call still")
        for query in ("a pet", "what shall we eat?", "hotel and flight"):
            (best,) = store.search(("notes",), query=query, limit=1)
            print(f"search      {query!r} finds {best.value['text']!r}, cosine {best.score:.2f}")
    try:
        # What a store cannot know before it embeds, it says at the first put, naming both numbers.
        with SqliteStore(index={"embed": embed, "dims": 1_536}) as store:
            store.put(("notes",), "n0", {"text": "The dog wags its tail"})
    except Misconfigured as error:
        print(f"refused     {error}")


if __name__ == "__main__":
    main()
