"""`outlast queue events`: what happened, in order, a line an event, once or as it happens."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.command import Common, Verb, watch_option, with_common
from outlast.cli.exits import Exit
from outlast.cli.open_store import opened
from outlast.cli.output import text
from outlast.cli.output.records import first_line
from outlast.cli.output.views import Lines, View, put, show_or_watch
from outlast.cli.task_ids import named
from outlast.errors import TaskNotFound

if TYPE_CHECKING:
    from outlast import Event, Outlast

MOST_SHOWN = 100_000
PAGE = 1000
_WIDEST_KIND = 18
_COLOURS = {
    "task.completed": "green",
    "task.failed": "red",
    "task.recovered": "yellow",
    "task.expired": "yellow",
    "worker.dead": "red",
    "stream.missed": "red",
}


@click.command("events", cls=Verb)
@click.option("--follow", is_flag=True, help="Show what happens as it happens, until Ctrl-C.")
@click.option("--after", metavar="CURSOR", help="Show all that came behind this event's cursor.")
@click.option(
    "--last", metavar="COUNT", type=click.IntRange(1, MOST_SHOWN), default=20,
    help="Without --after: show so many of the newest (20).",
)  # fmt: skip
@click.option(
    "--kind", "kinds", metavar="KIND", multiple=True,
    help="Only these, such as task.failed or recovery.*; may be repeated.",
)  # fmt: skip
@click.option("--task", metavar="ID", help="Only what happened to this task.")
@watch_option
@with_common
def events(
    common: Common,
    /,
    *,
    follow: bool,
    after: str | None,
    last: int,
    kinds: tuple[str, ...],
    task: str | None,
    watch: float | None,
) -> int:
    """Show what happened, in order, a line an event.

    With --follow and --json each line is a document.
    """
    if watch is not None and (follow or after):
        raise click.UsageError("--watch shows the newest; leave --follow and --after out")
    with opened(common) as app:
        wanted = list(kinds) or None
        task = None if task is None else _known(app, named(app, task), follow)
        if watch is not None:
            show_or_watch(
                common, watch, lambda: _newest(app.newest_events(last, kinds=wanted, task=task))
            )
        if not follow:
            past = _past(app, after, last, wanted, task)
            if common.as_json:
                put(text.safe_json([event_data(event) for event in past], indent=2))
            else:
                _print(common, past)
            return Exit.FINE
        try:
            _print(common, _all(app, after, last, wanted, task))
        except KeyboardInterrupt:
            return Exit.FINE
    return Exit.FINE


def _known(app: "Outlast", task_id: str, is_awaited: bool) -> str:
    """A task that is there, or was and has left events; who follows may wait for one to come."""
    if is_awaited or task_id in app.ids(task_id, 1) or app.newest_events(1, task=task_id):
        return task_id
    raise TaskNotFound(task_id)


def _newest(found: "Sequence[Event]") -> View:
    return View([event_data(one) for one in found], [Lines([_line(one, False) for one in found])])


def _past(
    app: "Outlast", after: str | None, last: int, kinds: Sequence[str] | None, task: str | None
) -> "Iterator[Event]":
    if after is None:
        yield from app.newest_events(last, kinds=kinds, task=task)
        return
    place: Any = after
    while found := app.events(place, PAGE, kinds=kinds, task=task):
        yield from found
        place = found[-1].cursor


def _all(
    app: "Outlast", after: str | None, last: int, kinds: Sequence[str] | None, task: str | None
) -> "Iterator[Event]":
    """What was, then what is, without a gap in between."""
    place: Any = after or "0.0"
    if after is None:
        for event in app.newest_events(last, kinds=kinds, task=task):
            yield event
            place = event.cursor
    yield from app.follow(place, kinds=kinds, task=task)


def _print(common: Common, found: "Iterable[Event]") -> None:
    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for event in found:
        line = text.safe_json(event_data(event)) if common.as_json else _line(event, is_coloured)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _line(event: "Event", is_coloured: bool) -> str:
    kind = text.safe(event.kind).ljust(_WIDEST_KIND)
    if is_coloured and event.kind in _COLOURS:
        kind = click.style(kind, fg=_COLOURS[event.kind])
    rest = " ".join(text.safe(word) for word in _words(event))
    return f"{text.stamp(event.at)}  {event.cursor!s:<9}  {kind}  {rest}".rstrip()


def _words(event: "Event") -> Iterator[str]:
    if event.task_id is not None:
        yield event.task_id
    if event.task_kind is not None:
        yield event.task_kind
    if event.task_id is None and event.queue is not None:
        yield f"queue={event.queue}"
    if event.worker is not None:
        yield f"worker={event.worker}"
    for name, value in event.data.items():
        if name in ("from", "to", "actor") or value in (None, 0, "", [], {}):
            continue
        yield f"{name}={first_line(value) if isinstance(value, str) else text.safe_json(value)}"


def event_data(event: "Event") -> dict[str, Any]:
    """An event for machines."""
    return {
        "cursor": str(event.cursor),
        "kind": event.kind,
        "at": text.moment(event.at),
        "task_id": event.task_id,
        "task_kind": event.task_kind,
        "queue": event.queue,
        "worker": event.worker,
        "run_id": event.run_id,
        "data": dict(event.data),
    }
