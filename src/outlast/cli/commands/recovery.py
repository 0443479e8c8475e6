"""`outlast queue recover`, `heal`, `reclaim`, `recovery-status`: recovery by hand and in words."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.command import Common, Verb, watch_option, with_common
from outlast.cli.exits import Exit
from outlast.cli.open_store import opened
from outlast.cli.output import text
from outlast.cli.output.views import Lines, Table, View, show, show_or_watch
from outlast.cli.signature import COMMAND_LINE, by_option
from outlast.domain.duration import duration_ms

if TYPE_CHECKING:
    from outlast import Decision, RecoveryReport, RecoveryStats, RecoveryStatus

MOST_PLANNED = 1000
LEFT_ALONE_NAMED = 10


@click.command("recover", cls=Verb)
@click.option("--plan", is_flag=True, help="Change nothing; show each decision and its reason.")
@with_common
def recover(common: Common, /, *, plan: bool) -> int:
    """Take back what dead workers left, as opening the store does."""
    with opened(common) as app:
        if plan:
            show(common, _plan(app.recovery_plan(MOST_PLANNED)))
            return Exit.FINE
        report = app.recover()
    show(common, _report(report))
    return Exit.FINE if report.was_successful() else Exit.NO


def _plan(decisions: "list[Decision]") -> View:
    rows = [
        (one.task_id, one.kind, one.worker or "", f"{one.to} ({one.reason})", one.because)
        for one in decisions
    ]
    columns = ("task", "kind", "worker", "would be", "because")
    table = Table(columns, rows, elastic="because", empty="No task is running.")
    lines = [f"Nothing was changed; only the first {MOST_PLANNED} running tasks are shown."]
    blocks: list[Table | Lines] = [table]
    if len(decisions) >= MOST_PLANNED:
        blocks.append(Lines(lines))
    return View([asdict(one) for one in decisions], blocks)


def _report(report: "RecoveryReport") -> View:
    rows = [(one.name, one.outcome, f"{one.seconds:.3f}") for one in report.steps]
    lines = [
        f"Run {report.run_id}: {text.count(report.tasks_put_back, 'task')} put back,"
        f" {report.tasks_failed} failed, {report.tasks_held} held,"
        f" of {text.count(len(report.dead_workers), 'dead worker')}."
    ]
    lines += [f"Not recovered: task {one.task_id}: {one.error}" for one in report.unrecovered]
    table = Table(("step", "outcome", "seconds"), rows, numbers=frozenset({"seconds"}))
    return View(report_data(report), [table, Lines(lines)])


def report_data(report: "RecoveryReport") -> dict[str, Any]:
    """A run for machines."""
    data = asdict(report)
    for name in ("started_at", "completed_at", "crashed_at"):
        data[name] = None if data[name] is None else text.moment(data[name])
    for worker in data["dead_workers"]:
        worker["last_beat_at"] = text.moment(worker["last_beat_at"])
    data["previous"] = report.previous.value
    data["was_successful"] = report.was_successful()
    return data


@click.command("heal", cls=Verb)
@click.option("--dry-run", "dry", is_flag=True, help="Change nothing; show the same figures.")
@with_common
def heal(common: Common, /, *, dry: bool) -> None:
    """Take back the tasks of dead workers and of leases that ran out, now."""
    with opened(common) as app:
        stats = app.recovery_stats() if dry else app.heal()
    show(common, _stats(stats))


def _stats(stats: "RecoveryStats") -> View:
    workers = ", ".join(stats.dead_workers) or "none"

    def verb(number: int) -> str:
        return "would be" if stats.is_dry_run else "was" if number == 1 else "were"

    back, failed, freed = stats.entries_reclaimed, stats.entries_failed, stats.locks_cleaned
    lines = [
        f"{text.count(back, 'task')} {verb(back)} put back, {failed} {verb(failed)} failed,"
        f" {text.count(freed, 'lock')} {verb(freed)} freed; dead workers: {workers}."
    ]
    data = asdict(stats) | {"recovery_timestamp": text.moment(stats.recovery_timestamp)}
    return View(data, [Lines(lines)])


@click.command("reclaim", cls=Verb)
@click.option(
    "--older-than", "--threshold", metavar="DURATION", required=True,
    help="Silent for at least so long, such as 300 or 5m.",
)  # fmt: skip
@click.option(
    "--force",
    is_flag=True,
    help="Take tasks from living workers too.",
)
@by_option
@with_common
def reclaim(common: Common, /, *, older_than: str, force: bool, by: str) -> None:
    """Take back tasks that gave no sign of life for long."""
    is_number = older_than.isascii() and older_than.replace(".", "", 1).isdigit()
    threshold = duration_ms(float(older_than) if is_number else older_than, "--older-than") / 1000
    with opened(common) as app:
        count = app.reclaim_stale(threshold, force=force, by=by, source=COMMAND_LINE)
    taken = f"{text.count(count, 'task')} {'was' if count == 1 else 'were'} taken back."
    show(common, View({"reclaimed": count}, [Lines([taken])]))


@click.command("recovery-status", cls=Verb)
@watch_option
@with_common
def recovery_status(common: Common, /, *, watch: float | None) -> None:
    """Say whether recovery is on, how the last run went, and what waits."""
    with opened(common) as app:
        show_or_watch(common, watch, lambda: _status(app.recovery_status()))


def _status(status: "RecoveryStatus") -> View:
    blocks: list[Table | Lines] = [Lines(_in_words(status))]
    if status.last is not None:
        blocks += _report(status.last).blocks
    return View(_status_data(status), blocks)


def _in_words(status: "RecoveryStatus") -> list[str]:
    lines = [f"Recovery is {status.mode}; orphans are treated by {status.action}."]
    if status.mode == "off":
        lines = ["RECOVERY IS SWITCHED OFF: tasks of dead workers stay as they are."]
    if status.is_degraded and status.mode != "off":
        lines.append("DEGRADED: the last run met errors.")
    if status.is_running:
        lines.append("A recovery is running now.")
    lines.append("There is something to recover." if status.is_due else "Nothing is due.")
    lines += _waiting(status)
    lines += [
        f"Task {one.task_id} ({one.kind}, {one.status}) was lost {one.recoveries} times:"
        f" {one.likely_cause}."
        for one in status.suspects
    ]
    if status.suspect_count > len(status.suspects):
        lines.append(f"And {status.suspect_count - len(status.suspects)} more were lost so.")
    return lines


def _waiting(status: "RecoveryStatus") -> list[str]:
    """What waits for a person: for approval, or for a decision that no policy takes."""
    lines = []
    if status.held_tasks:
        are_held = "is held and waits" if status.held_tasks == 1 else "are held and wait"
        lines.append(
            f"{text.count(status.held_tasks, 'recovered task')} {are_held} for approval by"
            " `outlast queue approve`."
        )
    if status.left_alone:
        lines.append(
            f"{text.count(status.left_alone, 'orphan')} of kinds that recovery leaves alone:"
            f" {', '.join(text.few(status.left_alone_ids, LEFT_ALONE_NAMED, status.left_alone))};"
            " decide by `outlast task force retry|fail ID`."
        )
    return lines


def _status_data(status: "RecoveryStatus") -> dict[str, Any]:
    return {
        "mode": status.mode,
        "action": status.action,
        "is_due": status.is_due,
        "is_running": status.is_running,
        "is_degraded": status.is_degraded,
        "held_tasks": status.held_tasks,
        "dead_workers": list(status.dead_workers),
        "suspects": [asdict(one) for one in status.suspects],
        "suspect_count": status.suspect_count,
        "left_alone": status.left_alone,
        "left_alone_ids": list(status.left_alone_ids),
        "last": None if status.last is None else report_data(status.last),
    }
