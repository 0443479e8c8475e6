"""`outlast up` and `worker run`: a worker in this process, from its start to its summary."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from outlast.cli import loading
from outlast.cli.command import Common, Verb, with_common
from outlast.cli.exits import Exit
from outlast.cli.output.progress import Figures, watching
from outlast.cli.output.text import count, few, span
from outlast.cli.output.views import Lines, View, put, show
from outlast.domain.escaping import escaped

if TYPE_CHECKING:
    from outlast import Outlast, Worker

PROGRAM, STDERR = "outlast", 2
KINDS_SHOWN = 5


def working_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the options of a worker, as one argument `options`."""
    options = [
        click.option(
            "--until-empty", is_flag=True, help="End when nothing is left that could be done."
        ),
        click.option(
            "--concurrency", type=click.IntRange(1, 1000), metavar="COUNT",
            help="How many tasks at once; 8 unless you say otherwise.",
        ),
        click.option(
            "--queue", "queues", metavar="NAME", multiple=True,
            help="A queue to serve, in the order given; may be repeated.",
        ),
        click.option("--name", metavar="NAME", help="The name the tasks are held under."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


@click.command("up", cls=Verb)
@click.argument("target", metavar="APP")
@working_options
@with_common
def up(common: Common, /, *, target: str, until_empty: bool, **options: Any) -> int:
    """Recover, work and watch, in one process.

    Opens the store of APP, which recovers what a crash left behind, runs its tasks, shows the
    progress, and sums up at the end. SIGTERM or Ctrl-C lets running tasks finish; a second one
    gives them back at once.
    """
    return work(common, target, options, until_empty=until_empty, is_watched=True)


def work(
    common: Common, target: str, options: dict[str, Any], *, until_empty: bool, is_watched: bool
) -> int:
    """Run a worker of APP to its end; with `until_empty` the code tells of tasks that failed."""
    app = _loaded(common, target)
    given = {name: value for name, value in options.items() if value}
    with app:
        worker, before = app.worker(**given), app.counts()
        failed_before = before["failed"] - _failed_at_opening(app)
        if not common.as_json:
            put("\n".join(map(escaped, _serving(app, worker.queues))))
            sys.stdout.flush()
        look = partial(_figures, app, worker, before["completed"])
        began = time.monotonic()
        with watching(look, is_quiet=common.as_json or not is_watched):
            tally = worker.run(until_empty, _acknowledge)
        seconds = time.monotonic() - began
        counts = app.counts()
    failed = counts["failed"] - failed_before
    data = {
        "worker": worker.name,
        "completed": tally.completed,
        "failed_attempts": tally.failed,
        "released": tally.released,
        "seconds": round(seconds, 3),
        "failed_tasks": failed,
        "counts": counts,
    }
    show(common, View(data, [Lines(_summary(data))]))
    # A service that was told to stop did what it was told, whatever its tasks did.
    return Exit.NO if until_empty and failed > 0 else Exit.FINE


def _figures(app: "Outlast", worker: "Worker", completed_before: int) -> Figures:
    """The store's totals: whoever starts anew goes on from what was done."""
    tally, running = worker.tally, worker.running
    unfinished = sum(app.backlog(queue, limit=1).unfinished for queue in worker.queues)
    completed = completed_before + tally.completed
    return Figures(completed, tally.failed, running, max(0, unfinished - running))


def _serving(app: "Outlast", queues: Sequence[str]) -> list[str]:
    """What this worker serves and of which store, and what waits there unserved."""
    kinds, where = ", ".join(few(list(app.functions), KINDS_SHOWN)), ", ".join(queues)
    noun = "queue" if len(queues) == 1 else "queues"
    lines = [f"serving {kinds} from {noun} {where} of {app.path}"]
    elsewhere = app.backlog(limit=1).unfinished
    elsewhere -= sum(app.backlog(queue, limit=1).unfinished for queue in queues)
    unknown = {
        one.kind: one.count
        for one in app.stats().tasks
        if one.status == "pending" and one.kind not in app.functions
    }
    if unknown:
        listed = ", ".join(few([f"{name} ({n:,})" for name, n in unknown.items()], KINDS_SHOWN))
        lines.append(f"waiting for a worker that knows their kind: {listed}")
    if elsewhere > 0:
        lines.append(f"{count(elsewhere, 'task')} in other queues: --queue NAME serves them")
    return lines


def _acknowledge(at_once: bool) -> None:
    """One line on stderr, so that whoever pressed Ctrl-C knows that it was heard.

    Written past the buffers of Python: the signal may have come in the middle of another line.
    """
    said = (
        "giving back what is running"
        if at_once
        else "stopping; what is running may finish, Ctrl-C again gives it back at once"
    )
    with suppress(OSError):
        # A terminal has shown ^C, or a bar, on the line where the cursor is.
        start = "\n" if os.isatty(STDERR) else ""
        os.write(STDERR, f"{start}{PROGRAM}: {said}\n".encode())


def _failed_at_opening(app: "Outlast") -> int:
    """Tasks that this very start gave up: they count among those that failed meanwhile."""
    report = app.last_report()
    return report.tasks_failed if report is not None and report.pid == os.getpid() else 0


def _loaded(common: Common, target: str) -> "Outlast":
    """The program's own store; a --store that names another one is a mistake to be told."""
    if common.settings is not None:
        os.environ["OUTLAST_SETTINGS"] = common.settings
    elif "OUTLAST_SETTINGS" not in os.environ:
        from outlast.settings import load

        found = load(search=True).file
        if found is not None:
            os.environ["OUTLAST_SETTINGS"] = str(found)
    app = loading.load(target)
    if not app.functions:
        raise click.UsageError(f"{target} registers no function; decorate one with @app.task")
    if common.store is not None:
        from outlast import Outlast

        asked = Outlast(common.store).path
        if os.path.realpath(asked) != os.path.realpath(app.path):
            raise click.UsageError(
                f"{target} uses the store {app.path}, not {asked}; change it there, or leave"
                " --store out"
            )
    return app


def _summary(data: dict[str, Any]) -> list[str]:
    did = [f"{data['completed']:,} completed"]
    if data["failed_attempts"]:
        did.append(count(data["failed_attempts"], "failed attempt"))
    if data["released"]:
        did.append(f"{data['released']:,} given back")
    left = ", ".join(f"{number:,} {status}" for status, number in data["counts"].items() if number)
    lines = [f"worker {data['worker']}: {', '.join(did)} in {span(data['seconds'])}"]
    if data["failed_tasks"] > 0:
        failed = count(data["failed_tasks"], "task")
        lines.append(f"{failed} failed for good: outlast task list --status failed shows why")
    return [*lines, f"the store holds {left or 'no tasks'}"]
