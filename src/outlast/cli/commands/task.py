"""`outlast task`: looking at tasks; what changes them stands in changes.py."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.command import Common, Verb, Verbs, watch_option, with_common
from outlast.cli.commands.task_changes import cancel, retry
from outlast.cli.commands.task_force import force
from outlast.cli.open_store import opened
from outlast.cli.output import text
from outlast.cli.output.records import (
    TASK_COLUMNS,
    TASK_NUMBERS,
    checkpoint_data,
    content_data,
    move_data,
    status_words,
    task_cells,
    task_data,
)
from outlast.cli.output.timeline import timeline
from outlast.cli.output.views import Lines, Table, View, show, show_or_watch
from outlast.cli.selection import Choice, newest, selection
from outlast.cli.task_ids import named

if TYPE_CHECKING:
    from outlast import Checkpoint, Outlast, Task

LISTED = 50
MOST_CHECKPOINTS = 1000


@click.group("task", cls=Verbs)
def task() -> None:
    """Look at tasks, retry, cancel and force them."""


task.add_command(retry)
task.add_command(cancel)
task.add_command(force)


@task.command("list", cls=Verb)
@selection
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=LISTED, show_default=True,
    metavar="COUNT", help="How many at most.",
)  # fmt: skip
@watch_option
@with_common
def list_tasks(common: Common, /, *, choice: Choice, limit: int, watch: float | None) -> None:
    """List tasks, newest first."""
    with opened(common) as app:
        show_or_watch(common, watch, lambda: _listing(newest(app, choice, limit), limit))


def _listing(tasks: list["Task"], limit: int) -> View:
    now = text.now()
    blocks: list[Table | Lines] = [
        Table(
            TASK_COLUMNS,
            [task_cells(one, now) for one in tasks],
            numbers=TASK_NUMBERS,
            elastic="error",
            expendable=("worker", "attempt", "age", "error", "queue"),
            empty="No task fits.",
        )
    ]
    if len(tasks) == limit:
        blocks.append(
            Lines([f"The list stops at {text.count(limit, 'task')}; --limit shows more."])
        )
    return View([task_data(one) for one in tasks], blocks)


@task.command("show", cls=Verb)
@click.argument("task_id", metavar="ID")
@click.option(
    "--payload", "with_content", is_flag=True,
    help="Show what payload, result and checkpoints hold; without it only their sizes.",
)  # fmt: skip
@watch_option
@with_common
def show_task(common: Common, /, *, task_id: str, with_content: bool, watch: float | None) -> None:
    """Show a task, its history as a timeline, and its checkpoints."""
    with opened(common) as app:
        meant = named(app, task_id)
        show_or_watch(common, watch, lambda: _portrait(app, meant, with_content))


def _portrait(app: "Outlast", task_id: str, with_content: bool) -> View:
    one = app.get(task_id)
    moves = app.history(task_id)
    checkpoints = app.checkpoints(task_id, limit=MOST_CHECKPOINTS)
    content = content_data(one, with_content=with_content)
    data = task_data(one) | content
    data["history"] = [move_data(move) for move in moves]
    data["checkpoints"] = [
        checkpoint_data(found, with_content=with_content) for found in checkpoints
    ]
    blocks = [Lines(_summary(one, content, text.now()))]
    if one.error:
        blocks.append(Lines(["error", *(f"  {line}" for line in one.error.splitlines())]))
    if with_content:
        blocks.append(Lines(_content_lines(content, checkpoints)))
    blocks.append(Lines(["timeline", *timeline(one, moves, checkpoints)]))
    return View(data, blocks, is_last=one.is_final)


def _summary(one: "Task", content: dict[str, Any], now: datetime) -> list[str]:
    rows = {
        "kind": one.kind,
        "queue": f"{one.queue}, priority {one.priority}",
        "group": one.group,
        "status": status_words(one),
        "created": f"{text.stamp(one.created_at)}, {text.age(one.created_at, now)} ago",
        "not before": text.stamp(one.not_before) if one.parked else None,
        "attempts": _attempts(one),
        "worker": one.worker,
        "lease until": text.stamp(one.lease_expires_at),
        "stage": one.stage,
        "retry of": one.retry_of,
        "payload": text.size(content["payload_bytes"]),
        "result": text.size(content["result_bytes"]) if content["result_bytes"] else None,
    }
    return [f"task {one.id}", *(f"  {name:<12} {value}" for name, value in rows.items() if value)]


def _attempts(one: "Task") -> str:
    limit = "" if one.max_recoveries is None else f" of {one.max_recoveries}"
    in_row = f"{one.crashes_in_row}{limit}"
    return (
        f"{one.attempt} begun, {one.retry_count} of {one.max_retries} retries,"
        f" {one.recovery_count} crashes, {in_row} in a row"
    )


def _content_lines(content: dict[str, Any], checkpoints: list["Checkpoint"]) -> list[str]:
    lines = ["contents"]
    for name in ("payload", "result"):
        if name in content["damaged"]:
            lines.append(f"  {name}: damaged on disk; restore it from a backup")
        elif content[f"{name}_bytes"]:
            lines.append(f"  {name}: {text.safe_json(content[name])}")
    lines += [
        f"  checkpoint {one.sequence_number}: {text.safe_json(one.data)}" for one in checkpoints
    ]
    return lines


@task.command("why", cls=Verb)
@click.argument("task_id", metavar="ID")
@with_common
def why(common: Common, /, *, task_id: str) -> None:
    """Say in one sentence why a task is where it is."""
    with opened(common) as app:
        meant = named(app, task_id)
        reason = app.why(meant)
        status = app.get(meant).status.value
    show(common, View({"id": meant, "status": status, "why": reason}, [Lines([reason])]))
