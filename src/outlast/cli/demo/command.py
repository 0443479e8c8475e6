"""`outlast demo`: kills a worker before your eyes, and shows what the next one finds."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from outlast.cli.command import Common, Verb, with_common
from outlast.cli.demo.run import Outcome, Scene, Stage, kill, moment, outcome_of, scene_after
from outlast.cli.demo.story import Teller
from outlast.cli.exits import Exit
from outlast.cli.output.progress import Figures, watching
from outlast.cli.output.records import move_data
from outlast.cli.output.text import span
from outlast.cli.output.timeline import timeline
from outlast.cli.output.views import View, show

FIRST, SECOND = "worker-1", "worker-2"


@click.command("demo", cls=Verb)
@click.option(
    "--tasks", "count", type=click.IntRange(20, 10_000), default=200, metavar="COUNT",
    help="How many tasks there are; 200 unless you say otherwise.",
)  # fmt: skip
@click.option(
    "--svg", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Save what is shown as a picture of a terminal, too.",
)  # fmt: skip
@with_common
def demo(common: Common, /, *, count: int, svg: Path | None) -> int:
    """Kill a worker with SIGKILL, and see what survives.

    Makes a store in a temporary folder, starts a worker on real tasks, kills it in the middle,
    starts another one, and checks that nothing was lost and nothing that was done was done
    again. The exit code is 0 only if that is so. Nothing is left behind, and no store of yours is
    touched.
    """
    tell = Teller(is_quiet=common.as_json, is_recorded=svg is not None)
    with _leaving_on_sigterm(), Stage() as stage:
        outcome = _play(stage, tell, count, is_quiet=common.as_json)
    _sum_up(tell, outcome)
    if svg is not None:
        svg.write_text(tell.picture(), encoding="utf-8")
    if common.as_json:
        show(common, View(_data(outcome)))
    return Exit.FINE if outcome.claim_held else Exit.NO


def _play(stage: Stage, tell: Teller, count: int, *, is_quiet: bool) -> Outcome:
    texts = stage.fill(count)
    tell.line(f"{count} tasks are stored and synced to disk: each takes the fingerprint of a text.")
    first = stage.start(FIRST)
    tell.line(f"{FIRST} (pid {first.pid}) starts.")
    with watching(lambda: _figures(stage), is_quiet=is_quiet):
        stage.wait_for_the_middle(first, count)
    killed_at = moment()
    kill(first)
    tell.line()
    tell.line(f"$ kill -9 {first.pid}", "bold red")
    scene = scene_after(stage, killed_at, first.pid)
    _tell_scene(stage, tell, scene)
    second = stage.start(SECOND)
    tell.line()
    tell.line(f"{SECOND} (pid {second.pid}) starts.")
    with watching(lambda: _figures(stage), is_quiet=is_quiet):
        stage.wait_for_the_end(second)
    return outcome_of(stage, texts, scene, second.pid)


def _figures(stage: Stage) -> Figures:
    counts = stage.app.counts()
    return Figures(counts["completed"], counts["failed"], counts["running"], counts["pending"])


def _tell_scene(stage: Stage, tell: Teller, scene: Scene) -> None:
    tell.line(f"{FIRST} is gone. No handler ran, nothing was cleaned up. It left behind:")
    tell.line(f"{len(scene.completed):>6}  completed and committed", "green")
    begun = len(scene.held & scene.begun)
    tell.line(f"{begun:>6}  begun, but not committed", "yellow")
    tell.line(f"{len(scene.held) - begun:>6}  taken ahead, not begun", "yellow")
    tell.line(f"{stage.app.counts()['pending']:>6}  waiting")


def _sum_up(tell: Teller, outcome: Outcome) -> None:
    good, bad = "green", "bold red"
    back = "" if outcome.back_seconds is None else f", {span(outcome.back_seconds)} after the kill"
    tell.line(f"{outcome.put_back:>6}  put back into the queue{back}", "yellow")
    tell.line(f"{outcome.done_after:>6}  completed by {SECOND}", good)
    tell.line()
    tell.line(f"{outcome.tasks:>6}  tasks in all", "bold")
    tell.line(f"{outcome.lost:>6}  lost", bad if outcome.lost else good)
    tell.line(f"{outcome.done_twice:>6}  done twice", bad if outcome.done_twice else good)
    if outcome.hit is not None:
        tell.line()
        tell.line("The life of a task that was cut short:", "bold")
        for line in timeline(outcome.hit, outcome.moves, ()):
            tell.line(line, _style_of(line))
    tell.line()
    if outcome.claim_held:
        tell.line("Nothing was lost, and nothing that was done was done again.", "bold green")
    else:
        tell.line("This is not what Outlast promises. Please report it.", bad)


def _style_of(line: str) -> str:
    styles = {"↺": "yellow", "●": "green", "▶": "cyan", "│": "yellow"}
    return next((style for sign, style in styles.items() if sign in line), "")


def _data(outcome: Outcome) -> dict[str, Any]:
    return {
        "claim_held": outcome.claim_held,
        "tasks": outcome.tasks,
        "done_before": outcome.done_before,
        "begun": outcome.begun,
        "put_back": outcome.put_back,
        "done_after": outcome.done_after,
        "lost": outcome.lost,
        "done_twice": outcome.done_twice,
        "back_seconds": outcome.back_seconds,
        "task": None if outcome.hit is None else outcome.hit.id,
        "history": [move_data(move) for move in outcome.moves],
    }


@contextmanager
def _leaving_on_sigterm() -> Iterator[None]:
    """Being told to end is answered as Ctrl-C is: by clearing up first."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.stdout.flush()
