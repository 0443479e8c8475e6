"""`outlast queue`: figures of the queues, and whether they hand anything out."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.command import Common, Lazy, Verb, Verbs, watch_option, with_common
from outlast.cli.open_store import opened
from outlast.cli.output import text
from outlast.cli.output.views import Lines, Table, View, show, show_or_watch
from outlast.cli.signature import COMMAND_LINE, by_option

if TYPE_CHECKING:
    from outlast import Outlast, Stats


_MENDING = {
    name: Lazy("outlast.cli.commands.recovery", name.replace("-", "_"), title)
    for name, title in {
        "recover": "Take back what dead workers left, as opening the store does.",
        "heal": "Take back the tasks of dead workers and of leases that ran out, now.",
        "reclaim": "Take back tasks that gave no sign of life for long.",
        "recovery-status": "Say whether recovery is on, how the last run went, and what waits.",
    }.items()
}


_REPORT = Lazy(
    "outlast.cli.commands.recovery_report",
    "recovery_report",
    "Show the newest recovery that has something to tell.",
)
_EVENTS = Lazy(
    "outlast.cli.commands.events", "events", "Show what happened, in order, a line an event."
)

_METRICS = Lazy(
    "outlast.cli.commands.metrics", "queue_metrics",
    "Print all metrics in Prometheus' text format, or as one JSON document.",
)  # fmt: skip
_AUDIT = Lazy(
    "outlast.cli.commands.audit",
    "audit",
    "Show who did what: recovery, healing, and people by name.",
)
_APPROVE = Lazy(
    "outlast.cli.commands.task_force", "approve",
    "Let tasks run that recovery holds for approval (recovery mode manual).",
)  # fmt: skip
_TELLING = {
    "approve": _APPROVE, "recovery-report": _REPORT, "audit": _AUDIT, "events": _EVENTS,
    "metrics": _METRICS,
}  # fmt: skip


@click.group("queue", cls=Verbs, lazy=_MENDING | _TELLING)
def queue() -> None:
    """Figures of the queues; pause and resume them; recovery by hand."""


@queue.command("stats", cls=Verb)
@click.option("--queue", "name", metavar="NAME", help="Count the tasks of this queue only.")
@watch_option
@with_common
def stats(common: Common, /, *, name: str | None, watch: float | None) -> None:
    """Count tasks by status, and show three figures for monitoring."""
    with opened(common) as app:
        show_or_watch(common, watch, lambda: _figures(name, app.counts(name), app.stats()))


def _figures(name: str | None, counts: Mapping[str, int], stats: "Stats") -> View:
    where = "all queues" if name is None else f"queue {name}"
    rows = [(status, f"{number:,}") for status, number in counts.items()]
    blocks: list[Table | Lines] = [
        Table(("status", "tasks"), rows, numbers=frozenset({"tasks"}), title=f"tasks of {where}"),
        _by_kind(stats),
        _leases(stats),
        _checkpoints(stats),
    ]
    if stats.paused_queues:
        blocks.insert(1, Lines([f"paused queues: {', '.join(stats.paused_queues)}"]))
    if stats.silent_workers:
        blocks.append(Lines([f"silent workers: {', '.join(stats.silent_workers)}"]))
    return View({"queue": name, "counts": dict(counts), **_data(stats)}, blocks)


def _by_kind(stats: "Stats") -> Table:
    return Table(
        ("kind", "status", "tasks", "mean age in hours"),
        [
            (one.kind, one.status.value, f"{one.count:,}", f"{one.mean_age_hours:.2f}")
            for one in stats.tasks
        ],
        numbers=frozenset({"tasks", "mean age in hours"}),
        title="tasks by kind and status",
        empty="No tasks.",
    )


def _leases(stats: "Stats") -> Table:
    mean = stats.leases.mean_minutes_since_beat
    return Table(
        ("active", "stale", "mean minutes since beat", "ran out"),
        [
            (
                f"{stats.leases.active:,}",
                f"{stats.leases.stale:,}",
                "" if mean is None else f"{mean:.2f}",
                f"{stats.leases.ran_out:,}",
            )
        ],
        numbers=frozenset({"active", "stale", "mean minutes since beat", "ran out"}),
        title="leases",
    )


def _checkpoints(stats: "Stats") -> Table:
    return Table(
        ("task", "checkpoints", "last", "first at", "last at"),
        [
            (
                one.task_id,
                f"{one.count:,}",
                str(one.last_sequence),
                text.stamp(one.first_at),
                text.stamp(one.last_at),
            )
            for one in stats.checkpoints
        ],
        numbers=frozenset({"checkpoints", "last"}),
        title="tasks with the most checkpoints",
        empty="No checkpoints.",
    )


def _data(stats: "Stats") -> dict[str, Any]:
    return {
        "at": text.moment(stats.at),
        "tasks": [asdict(one) | {"status": one.status.value} for one in stats.tasks],
        "leases": asdict(stats.leases),
        "checkpoints": [
            asdict(one)
            | {"first_at": text.moment(one.first_at), "last_at": text.moment(one.last_at)}
            for one in stats.checkpoints
        ],
        "silent_workers": list(stats.silent_workers),
        "paused_queues": list(stats.paused_queues),
    }


@queue.command("pause", cls=Verb)
@click.argument("name")
@by_option
@with_common
def pause(common: Common, /, *, name: str, by: str) -> None:
    """Hand out nothing from a queue until it is resumed."""
    _switch(common, name, "paused", lambda app: app.pause(name, by=by, source=COMMAND_LINE))


@queue.command("resume", cls=Verb)
@click.argument("name")
@by_option
@with_common
def resume(common: Common, /, *, name: str, by: str) -> None:
    """Hand out tasks of a queue again."""
    _switch(common, name, "open", lambda app: app.unpause(name, by=by, source=COMMAND_LINE))


def _switch(common: Common, name: str, state: str, change: Callable[["Outlast"], bool]) -> None:
    with opened(common) as app:
        was_changed = change(app)
    sentence = f"Queue {name} {'is' if was_changed else 'was already'} {state}."
    data = {"queue": name, "paused": state == "paused", "changed": was_changed}
    show(common, View(data, [Lines([sentence])]))
