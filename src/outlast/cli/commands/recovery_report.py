"""`outlast queue recovery-report`: what the last recovery found and did, drawn or in plain text."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from outlast.cli.command import Common, Verb, with_common
from outlast.cli.exits import Exit
from outlast.cli.open_store import opened
from outlast.cli.output import text
from outlast.cli.output.views import Lines, Table, View, put, show
from outlast.domain.recovery_report import outcome

if TYPE_CHECKING:
    from outlast import ReportDocument

LISTED = 100
LEFT_ALONE_NAMED = 10
MOST_LISTED = 100_000


@click.command("recovery-report", cls=Verb)
@click.option("--run", "run_id", type=click.IntRange(min=1), help="Of this run, by its number.")
@click.option(
    "--limit", type=click.IntRange(0, MOST_LISTED), default=LISTED, show_default=True,
    help="List so many tasks at most.",
)  # fmt: skip
@click.option(
    "--after", type=click.IntRange(min=0), default=0,
    help="List the tasks behind this position: the next page.",
)  # fmt: skip
@with_common
def recovery_report(common: Common, /, *, run_id: int | None, limit: int, after: int) -> int:
    """Show the newest recovery that has something to tell."""
    with opened(common) as app:
        found = app.recovery_report(run_id, limit, after)
    if found is None:
        missing = (
            "No recovery is on record." if run_id is None else f"Run {run_id} is not on record."
        )
        show(common, View(None, [Lines([missing])]))
        return Exit.FINE if run_id is None else Exit.NO
    if common.as_json or sys.stdout.isatty():
        show(common, View(asdict(found), _blocks(found)))
    else:
        put("\n".join(map(text.safe, [*str(found).splitlines(), *_footnotes(found)])))
    return Exit.FINE


def _blocks(found: "ReportDocument") -> list[Table | Lines]:
    """The same for a terminal: tables that can be read at a glance."""
    tasks = [
        (one.task_id, one.kind, outcome(one), one.previous_worker or "", one.error or "")
        for one in found.recovered_tasks
    ]
    columns = ("task", "kind", "outcome", "was with", "error")
    workers = [
        (one.worker, str(one.pid), text.span(one.silent_seconds), one.because,
         str(one.tasks_put_back), str(one.tasks_failed))
        for one in found.dead_workers
    ]  # fmt: skip
    steps = [(one.name, one.outcome, f"{one.seconds:.3f}") for one in found.steps]
    return [
        Lines(_heading(found)),
        Table(("step", "outcome", "seconds"), steps, numbers=frozenset({"seconds"})),
        Table(
            columns, tasks, elastic="error", expendable=("kind", "was with"),
            title=f"orphaned tasks: {found.orphaned_tasks_found}", empty="None.",
        ),
        Table(
            ("worker", "pid", "silent for", "because", "put back", "failed"), workers,
            numbers=frozenset({"pid", "put back", "failed"}),
            title=f"dead workers: {len(found.dead_workers)}", empty="None.",
        ),
        Lines([
            *_left_alone(found), *(f"Error: {error}" for error in found.errors), *_footnotes(found),
        ]),
    ]  # fmt: skip


def _heading(found: "ReportDocument") -> list[str]:
    left = f", seen last {found.crashed_at}" if found.crashed_at else ""
    return [
        f"Recovery run {found.run_id} ({found.trigger}), {found.started_at},"
        f" {found.duration_seconds:.3f} s",
        f"previous stop: {found.previous_stop}{left}",
    ]


def _left_alone(found: "ReportDocument") -> list[str]:
    if not found.tasks_skipped:
        return []
    named = ", ".join(text.few(found.skipped_tasks, LEFT_ALONE_NAMED, found.tasks_skipped))
    return [f"Left alone by policy: {named}"]


def _footnotes(found: "ReportDocument") -> list[str]:
    lines = []
    if found.next_after is not None:
        lines.append(f"(more tasks: --run {found.run_id} --after {found.next_after})")
    if found.runs_without_findings_since:
        runs = text.count(found.runs_without_findings_since, "run")
        lines.append(f"({runs} since then had nothing to tell)")
    return lines
