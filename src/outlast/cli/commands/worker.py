"""`outlast worker`: running one as a service, and seeing which there are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.command import Common, Verb, Verbs, watch_option, with_common
from outlast.cli.commands.up import work, working_options
from outlast.cli.exits import Exit
from outlast.cli.open_store import opened
from outlast.cli.output import text
from outlast.cli.output.views import Lines, Table, View, show, show_or_watch
from outlast.cli.signature import COMMAND_LINE, by_option

if TYPE_CHECKING:
    from outlast import Outlast, WorkerInfo

_COLUMNS = ("name", "state", "pid", "host", "queues", "kinds", "slots", "holds")
_BEAT_COLUMNS = ("beat", "silent", "progress")
_NUMBERS = frozenset({"pid", "slots", "holds", "silent"})


@click.group("worker", cls=Verbs)
def worker() -> None:
    """Run a worker, list workers, declare one dead."""


@worker.command("run", cls=Verb)
@click.argument("target", metavar="APP")
@working_options
@with_common
def run(common: Common, /, *, target: str, until_empty: bool, **options: Any) -> int:
    """Run a worker of APP until it is told to stop.

    SIGTERM or Ctrl-C lets running tasks finish; a second one gives them back at once.
    """
    return work(common, target, options, until_empty=until_empty, is_watched=False)


@worker.command("list", cls=Verb)
@click.option(
    "--show-heartbeat", "with_beats", is_flag=True,
    help="Show when each last gave a sign of life, how long ago, and its progress.",
)  # fmt: skip
@click.option("--all", "also_ended", is_flag=True, help="Show those that left or died, too.")
@watch_option
@with_common
def list_workers(
    common: Common, /, *, with_beats: bool, also_ended: bool, watch: float | None
) -> None:
    """List workers: how they are, what they serve and hold."""
    with opened(common) as app:

        def look() -> View:
            # One that is gone without an end of its own still holds tasks, and is shown.
            found = [one for one in app.workers() if also_ended or one.ended_at is None]
            return _listing(found, with_beats)

        show_or_watch(common, watch, look)


@worker.command("mark-dead", cls=Verb)
@click.argument("who", metavar="NAME")
@click.option("--force", is_flag=True, help="Even if it is alive: its work is taken from it.")
@by_option
@with_common
def mark_dead(common: Common, /, *, who: str, force: bool, by: str) -> int:
    """Declare a worker dead that you know to be gone, and put back what it holds.

    NAME is its name or its incarnation, as `worker list --json` shows it.
    """
    with opened(common) as app:
        one = _meant(app.workers(), who)
        dead = app.mark_dead(one.incarnation, by, force, COMMAND_LINE)
        if dead is None:
            return _unchanged(common, app, one)
    data = {
        "worker": dead.worker, "incarnation": dead.incarnation, "changed": True,
        "tasks_put_back": dead.tasks_put_back, "tasks_failed": dead.tasks_failed,
    }  # fmt: skip
    put_back = text.count(dead.tasks_put_back, "task")
    said = (
        f"Worker {dead.worker} (pid {dead.pid}) is dead: {put_back} put back,"
        f" {dead.tasks_failed} failed."
    )
    show(common, View(data, [Lines([said])]))
    return Exit.FINE


def _unchanged(common: Common, app: "Outlast", meant: "WorkerInfo") -> int:
    """It had died or left before, perhaps found dead by this very opening; or it was heard of."""
    one = next((one for one in app.workers() if one.incarnation == meant.incarnation), meant)
    data: dict[str, Any] = {"worker": one.name, "incarnation": one.incarnation, "changed": False}
    code = Exit.NO if one.ended_at is None else Exit.FINE
    said = f"Worker {one.name} (pid {one.pid}) was heard of meanwhile; nothing was changed."
    if one.ended_at is not None:
        said = f"Worker {one.name} (pid {one.pid}) has left; nothing was changed."
    if one.state == "dead":
        said = f"Worker {one.name} (pid {one.pid}) is dead already"
        # The opening of the store comes before the word, and recovers.
        report = app.last_report() if meant.ended_at is None else None
        for death in report.dead_workers if report else ():
            if death.incarnation == one.incarnation:
                back, failed = death.tasks_put_back, death.tasks_failed
                data |= {"tasks_put_back": back, "tasks_failed": failed}
                said += f"; recovery put back {text.count(back, 'task')}, and failed {failed}"
        said += "."
    show(common, View(data, [Lines([said])]))
    return code


def _meant(found: Sequence["WorkerInfo"], who: str) -> "WorkerInfo":
    called = [one for one in found if who in (one.incarnation, one.name)]
    # The newest comes first: who asks for one that is gone already is told of that one.
    fits = [one for one in called if one.ended_at is None] or called[:1]
    if len(fits) == 1:
        return fits[0]
    if not fits:
        raise click.UsageError(f"no worker called {who} is on the list")
    shown = ", ".join(one.incarnation for one in fits[:3])
    raise click.UsageError(f"{len(fits)} workers are called {who}; give an incarnation: {shown}")


def _listing(workers: Sequence["WorkerInfo"], with_beats: bool) -> View:
    columns = _COLUMNS + (_BEAT_COLUMNS if with_beats else ())
    rows = [_cells(one) + (_beat_cells(one) if with_beats else ()) for one in workers]
    stuck = [
        f"stuck: worker {one.name} (pid {one.pid}) still runs task {handler.task_id}"
        f" ({handler.kind}), which ended at {text.stamp(handler.since)}"
        for one in workers
        for handler in one.stuck
    ]
    blocks: list[Table | Lines] = [
        Table(
            columns,
            rows,
            numbers=_NUMBERS,
            elastic="kinds",
            expendable=("kinds", "host", "slots", "beat", "queues"),
            empty="No worker is here.",
        )
    ]
    if stuck:
        blocks.append(Lines(stuck))
    return View([worker_data(one) for one in workers], blocks)


def _cells(one: "WorkerInfo") -> tuple[str, ...]:
    serves = one.serves
    return (
        one.name,
        one.state.value,
        str(one.pid),
        one.host,
        "" if serves is None else ", ".join(serves.queues),
        "" if serves is None or serves.kinds is None else ", ".join(serves.kinds),
        "" if serves is None or serves.concurrency is None else str(serves.concurrency),
        str(one.task_count),
    )


def _beat_cells(one: "WorkerInfo") -> tuple[str, ...]:
    return (text.stamp(one.beat_at), text.span(one.silent_seconds), progress_words(one.progress))


def progress_words(said: Any) -> str:
    """What a beat said of progress: as a sentence if a worker said it, else as it was given."""
    if said is None or isinstance(said, str):
        return said or ""
    if isinstance(said, list) and all(_is_told_by_a_handler(one) for one in said):
        return "; ".join(map(_one_progress, said))
    if isinstance(said, dict):
        return ", ".join(f"{name}: {_flat(value)}" for name, value in said.items())
    return _flat(said)


def _is_told_by_a_handler(said: Any) -> bool:
    return isinstance(said, dict) and {"task_id", "done", "total", "note"} <= set(said)


def _one_progress(said: dict[str, Any]) -> str:
    done, total, note = (said[name] for name in ("done", "total", "note"))
    share = ""
    if isinstance(total, int | float) and total > 0 and isinstance(done, int | float):
        share = f" of {total:g} ({done / total:.0%})"
    shown = f"{done:g}" if isinstance(done, int | float) else _flat(done)
    return f"{said['task_id']} {shown}{share}" + (f", {note}" if note else "")


def _flat(value: Any) -> str:
    return value if isinstance(value, str) else text.safe_json(value)


def worker_data(one: "WorkerInfo") -> dict[str, Any]:
    """A worker as data."""
    serves = one.serves
    return {
        "name": one.name,
        "state": one.state.value,
        "pid": one.pid,
        "host": one.host,
        "incarnation": one.incarnation,
        "serves": None if serves is None else {
            "queues": list(serves.queues),
            "kinds": None if serves.kinds is None else list(serves.kinds),
            "concurrency": serves.concurrency,
        },
        "task_count": one.task_count,
        "task_ids": list(one.task_ids),
        "beat_task_id": one.beat_task_id,
        "registered_at": text.moment(one.registered_at),
        "beat_at": text.moment(one.beat_at),
        "silent_seconds": one.silent_seconds,
        "ended_at": text.moment(one.ended_at),
        "progress": one.progress,
        "stuck": [
            {"task_id": handler.task_id, "kind": handler.kind, "since": text.moment(handler.since)}
            for handler in one.stuck
        ],
    }  # fmt: skip
