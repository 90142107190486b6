"""The demo told in plain text, for terminals and environments without ``rich``."""

from __future__ import annotations

from remembering.story import Event, Story

USERS = 2
FOUND_BY = {"text": "found by its words", "meaning": "found by its meaning", "nothing": "nothing to be found"}


class PlainView:
    """Prints what happens as it happens."""

    def opening(self, story: Story) -> None:
        """Say what is about to be shown."""
        print("Stateroom: two people, one assistant, one memory for each")
        print(where(story))

    def event(self, event: Event, story: Story) -> None:
        """Show one event, unless it says nothing to people."""
        match event["event"]:
            case "started":
                print(f"\n{day(story)}, process {event['pid']}\n")
            case "said":
                print(f"{event['user']}: {event['text']}")
            case "remembered":
                print(f"     + {event['text']}")
            case "stored" if len(story.stored) == USERS:
                if story.path is None:
                    print("\nTuesday, the same process\n")
                print(still_there(story))
            case "answered":
                self._answer(story.answers[-1])

    def killed(self, story: Story) -> None:
        """Say that the process is gone."""
        print(f"\nSIGKILL: {kill_note(story)}")

    def refused(self, refusal: Event) -> None:
        """Say why the demo cannot start."""
        print(f"\nThe demo cannot start. {refusal['message']}")

    def verdict(self, story: Story, seconds: float) -> None:
        """Say whether all went well, and what did not."""
        print()
        for check in story.checks():
            print(f"{'ok    ' if check.ok else 'FAILED'}  {check.says}")
        print(f"\n{'All as it should be' if story.ok() else 'Not as it should be'} ({seconds:.1f} s).")

    def _answer(self, answer: Event) -> None:
        print(f"\n{answer['user']}: {answer['question']}")
        print(f"     {answer['reply']}  ({FOUND_BY[answer['by']]})")
        print(f"     {'':54} score   text vector")
        for hit in answer["hits"]:
            text, vector = hit["components"]["text"], hit["components"]["vector"]
            print(
                f"     {hit['text'][:54]:54} {number(hit['score']):>5} {number(text):>6} {number(vector):>6}"
            )


def where(story: Story) -> str:
    """Say where the memories are."""
    if story.path is None:
        return "In the memory of one process. Nothing would survive its death, so it is not killed."
    return f"In one SQLite file: {story.path}"


def day(story: Story) -> str:
    """Name the day that the latest process plays."""
    return "Monday" if len(story.pids) == 1 else "Tuesday"


def kill_note(story: Story) -> str:
    """Say what happened to the process."""
    count = len(story.remembered)
    return f"Process {story.pids[-1]} is dead, in the middle of its work, right after memory number {count}."


def still_there(story: Story) -> str:
    """Say what is stored before anything is asked."""
    count = sum(len(texts) for texts in story.stored.values())
    return f"{count} memories are in the store. Tuesday's threads are new and know nothing of Monday's."


def number(value: float | None) -> str:
    """Show a score in little room."""
    return "-" if value is None else f"{value:.2f}"
