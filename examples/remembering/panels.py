"""The demo told with ``rich``: panels, small tables and few colours."""

from __future__ import annotations

from rich.box import ROUNDED
from rich.console import Console, Group
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from remembering.plain import FOUND_BY, day, kill_note, number, still_there, where
from remembering.story import Event, Story

WIDTH = 96
PEOPLE = {"ana": "cyan", "ben": "magenta"}
MARKS = {"text": "green", "meaning": "green", "nothing": "yellow"}


class PanelView:
    """Prints what happens as it happens; colours and width are as the terminal and NO_COLOR allow."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._console.width = min(self._console.width, WIDTH)

    def opening(self, story: Story) -> None:
        """Say what is about to be shown."""
        self._console.print()
        self._console.print(
            Text.assemble(("Stateroom", "bold"), "  two people, one assistant, one memory for each")
        )
        self._console.print(Text(where(story), style="dim"))

    def event(self, event: Event, story: Story) -> None:
        """Show one event, unless it says nothing to people."""
        match event["event"]:
            case "started":
                self._heading(day(story), f"process {event['pid']}")
            case "said":
                self._console.print(_said(event))
            case "remembered":
                self._console.print(_indented(Text.assemble(("✓ ", "green"), (event["text"], "dim")), 6))
            case "stored" if len(story.stored) == len(PEOPLE):
                if story.path is None:
                    self._heading("Tuesday", "the same process")
                self._console.print(f"{still_there(story)}\n")
            case "answered":
                self._console.print(_answer(story.answers[-1]))

    def killed(self, story: Story) -> None:
        """Say that the process is gone."""
        self._console.print()
        self._console.print(Text.assemble(("SIGKILL", "bold red"), f"  {kill_note(story)}"))

    def refused(self, refusal: Event) -> None:
        """Say why the demo cannot start."""
        text = Text(refusal["message"])
        self._console.print()
        self._console.print(
            Panel(text, title="The demo cannot start", title_align="left", border_style="yellow")
        )

    def verdict(self, story: Story, seconds: float) -> None:
        """Say whether all went well, and what did not."""
        self._console.print()
        for check in story.checks():
            mark = ("✓ ", "green") if check.ok else ("✗ ", "bold red")
            self._console.print(Text.assemble(mark, check.says))
        ending = ("All as it should be", "bold green") if story.ok() else ("Not as it should be", "bold red")
        self._console.print()
        self._console.print(Text.assemble(ending, (f"  {seconds:.1f} s", "dim")))

    def _heading(self, day: str, process: str) -> None:
        title = Text.assemble((day, "bold"), (f"  {process}", "dim"))
        self._console.print()
        self._console.print(Rule(title, align="left", style="bright_black"))
        self._console.print()


def _said(event: Event) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_row(_person(event["user"]), Text(event["text"]))
    return grid


def _answer(answer: Event) -> Panel:
    return Panel(
        Group(Text(answer["reply"], style="bold"), "", _hits(answer)),
        title=Text.assemble(_person(answer["user"]), "  ", (answer["question"], "default")),
        title_align="left",
        subtitle=Text(FOUND_BY[answer["by"]], style=MARKS[answer["by"]]),
        subtitle_align="right",
        box=ROUNDED,
        border_style="bright_black",
        padding=(0, 1),
    )


def _hits(answer: Event) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0), expand=True)
    table.add_column("candidates", ratio=1)
    for name in ("score", "text", "vector"):
        table.add_column(name, justify="right", width=6)
    for place, hit in enumerate(answer["hits"]):
        parts = (hit["score"], hit["components"]["text"], hit["components"]["vector"])
        chosen = place == 0 and answer["by"] != "nothing"
        table.add_row(hit["text"], *map(number, parts), style="" if chosen else "dim")
    return table


def _person(user: str) -> Text:
    return Text(user, style=PEOPLE.get(user, "cyan"))


def _indented(text: Text, by: int) -> Table:
    grid = Table.grid()
    grid.add_row(" " * by, text)
    return grid
