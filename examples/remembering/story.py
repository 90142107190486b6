"""What happened in a run of the demo, and whether it is what should have happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

Event = dict[str, Any]


class Check(NamedTuple):
    """One expectation, as a sentence that is true if ``ok``."""

    name: str
    ok: bool
    says: str


@dataclass
class Story:
    """The events of all processes of one run, gathered."""

    store: str
    path: str | None
    pids: list[int] = field(default_factory=list)
    remembered: list[Event] = field(default_factory=list)
    stored: dict[str, dict[str, str]] = field(default_factory=dict)
    answers: list[Event] = field(default_factory=list)
    killed: bool = False
    refused: Event | None = None
    done: bool = False

    def add(self, event: Event) -> None:
        """Take in what a process reported."""
        match event["event"]:
            case "started":
                self.pids.append(event["pid"])
            case "remembered":
                self.remembered.append(event)
            case "stored":
                self.stored[event["user"]] = event["texts"]
            case "answered":
                self.answers.append(event | {"ok": is_as_expected(event)})
            case "refused":
                self.refused = event
            case "done":
                self.done = True

    def checks(self) -> list[Check]:
        """Return every expectation with what came of it."""
        told, there = len(self.remembered), sum(map(self._is_there, self.remembered))
        where = "are still there after the kill" if self.store == "sqlite" else "are there"
        leaks = len(self.leaks())
        checks = [
            Check("stored", 0 < told == there, f"{there} of {told} acknowledged memories {where}"),
            self._found("text", "answered by the words that they share with a memory"),
            self._found("meaning", "answered by meaning, without a shared word"),
            self._found("nothing", "about somebody else's memory left unanswered"),
            Check("private", not leaks, f"{leaks or 'no'} memories came up for another user than their own"),
        ]
        if self.store == "sqlite":
            apart = self.killed and len(set(self.pids)) == 2
            checks.insert(0, Check("killed", apart, "one process was told and was killed, another was asked"))
        return checks

    def leaks(self) -> list[Event]:
        """Return the hits that belong to somebody else than the one who asked."""
        return [
            hit
            for answer in self.answers
            for hit in answer["hits"]
            if hit["namespace"][0] != answer["user"]
            or hit["text"] not in self.stored.get(answer["user"], {}).values()
        ]

    def ok(self) -> bool:
        """Tell whether all went as expected, to the end."""
        return self.refused is None and self.done and all(check.ok for check in self.checks())

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        return {
            "ok": self.ok(),
            "store": self.store,
            "path": self.path,
            "pids": self.pids,
            "killed": self.killed,
            "refused": self.refused,
            "remembered": self.remembered,
            "stored": self.stored,
            "answers": self.answers,
            "checks": [check._asdict() for check in self.checks()],
        }

    def _is_there(self, memory: Event) -> bool:
        return bool(self.stored.get(memory["user"], {}).get(memory["key"]) == memory["text"])

    def _found(self, by: str, how: str) -> Check:
        asked = [answer for answer in self.answers if answer["expected"]["by"] == by]
        right = sum(answer["ok"] for answer in asked)
        noun = "question" if len(asked) == 1 else "questions"
        return Check(by, 0 < len(asked) == right, f"{right} of {len(asked)} {noun} {how}")


def is_as_expected(answer: Event) -> bool:
    """Tell whether the right memory came first, and was found in the expected way."""
    expected = answer["expected"]
    if answer["by"] != expected["by"]:
        return False
    return bool(expected["by"] == "nothing" or expected["text"] in answer["hits"][0]["text"])
