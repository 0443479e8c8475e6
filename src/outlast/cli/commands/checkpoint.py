"""`outlast checkpoint`: what a task recorded of its progress, for those who look into a crash."""

from typing import TYPE_CHECKING

import click

from outlast.cli.command import Common, Verb, Verbs, watch_option, with_common
from outlast.cli.exits import Exit
from outlast.cli.open_store import opened
from outlast.cli.output import text
from outlast.cli.output.records import checkpoint_data
from outlast.cli.output.views import Lines, Table, View, show, show_or_watch
from outlast.cli.task_ids import named
from outlast.domain.task import CHECKPOINT_TYPES

if TYPE_CHECKING:
    from outlast import Checkpoint

LISTED = 100
MOST_LISTED = 100_000


@click.group("checkpoint", cls=Verbs)
def checkpoint() -> None:
    """See what a task recorded of its progress."""


@checkpoint.command("list", cls=Verb)
@click.argument("task_id", metavar="TASK")
@click.option("--type", "type_", type=click.Choice(CHECKPOINT_TYPES), help="Only of this type.")
@click.option(
    "--limit", type=click.IntRange(1, MOST_LISTED), default=LISTED, show_default=True,
    metavar="COUNT", help="How many of the newest at most.",
)  # fmt: skip
@watch_option
@with_common
def list_checkpoints(
    common: Common, /, *, task_id: str, type_: str | None, limit: int, watch: float | None
) -> None:
    """List the checkpoints of a task in their order, without what they hold."""
    with opened(common) as app:
        meant = named(app, task_id)
        empty = f"Task {meant} has no checkpoint{f' of type {type_}' if type_ else 's'}."
        show_or_watch(
            common, watch, lambda: _listing(app.checkpoints(meant, type_, limit), limit, empty)
        )


@checkpoint.command("show", cls=Verb)
@click.argument("task_id", metavar="TASK")
@click.argument("sequence_number", metavar="SEQ", type=click.IntRange(min=1))
@click.option("--data", "with_data", is_flag=True, help="Show what it holds, too.")
@with_common
def show_checkpoint(
    common: Common, /, *, task_id: str, sequence_number: int, with_data: bool
) -> int:
    """Show one checkpoint of a task by its number; what it holds only with --data."""
    with opened(common) as app:
        meant = named(app, task_id)
        found = [
            one
            for one in app.checkpoints(meant, limit=MOST_LISTED)
            if one.sequence_number == sequence_number
        ]
    if not found:
        absent = f"task {meant} has no checkpoint {sequence_number}; outlast checkpoint list"
        raise click.ClickException(f"{absent} {meant} shows those it has")
    show(common, _portrait(found[0], with_data))
    return Exit.FINE


def _listing(found: list["Checkpoint"], limit: int, empty: str) -> View:
    rows = [
        (str(one.sequence_number), one.type, str(one.attempt), text.stamp(one.created_at),
         _size(one))
        for one in found
    ]  # fmt: skip
    blocks: list[Table | Lines] = [
        Table(
            ("seq", "type", "attempt", "at", "size"), rows,
            numbers=frozenset({"seq", "attempt", "size"}),
            empty=empty,
        )
    ]  # fmt: skip
    if len(found) == limit:
        newest = text.count(limit, "checkpoint")
        blocks.append(Lines([f"These are the newest {newest}; --limit shows more."]))
    return View([checkpoint_data(one, with_content=False) for one in found], blocks)


def _size(one: "Checkpoint") -> str:
    return text.size(len(text.safe_json(one.data)))


def _portrait(one: "Checkpoint", with_data: bool) -> View:
    rows = {
        "task": one.task_id,
        "group": one.group,
        "type": one.type,
        "attempt": str(one.attempt),
        "at": text.stamp(one.created_at),
        "id": one.id,
        "size": _size(one),
    }
    lines = [f"checkpoint {one.sequence_number}"]
    lines += [f"  {name:<12} {value}" for name, value in rows.items() if value]
    if with_data:
        lines.append(f"  {'data':<12} {text.safe_json(one.data)}")
        if one.metadata is not None:
            lines.append(f"  {'metadata':<12} {text.safe_json(one.metadata)}")
    data = {"task_id": one.task_id, "group": one.group}
    return View(data | checkpoint_data(one, with_content=with_data), [Lines(lines)])
