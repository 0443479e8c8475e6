"""`outlast lab`: the fault laboratory, on the user's own machine and disk."""

import random
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.command import Common, Verb, with_common
from outlast.cli.exits import Exit
from outlast.cli.output.text import safe
from outlast.cli.output.views import Lines, Table, View, show
from outlast_lab.experiments import EXPERIMENTS

if TYPE_CHECKING:
    from outlast_lab.experiment import Finding, Findings
    from outlast_lab.laboratory import Order, Outcome

KEPT_IN = "outlast-lab"
MOST_SHOWN = 10

MEANINGS = {
    "lost": "what was acknowledged is not there (promise 1)",
    "overlap": "a lease was given away while it stood (promise 2)",
    "twice": "something was handed out, or accepted, more than once (promise 2)",
    "tokens": "a token did not rise with its claim (promise 3)",
    "zombie": "a write was accepted from one whose lease was over (promise 3)",
    "stuck": "what was broken off cannot be opened or finished (promise 4)",
    "counters": "the budgets of a task do not add up (promise 5)",
    "reopening": "opening a second time changed something (promise 6)",
    "phantom": "something happened that was refused or never asked for (promise 9)",
    "surprise": "a call ended in an error that is none of Outlast's (promise 9)",
    "torn": "half of something that belongs together is there",
    "path": "a task's moves do not lead to where it is, or nobody was told of one",
    "damage": "SQLite's own check found the file damaged",
}


ALL = "all"

_EPILOG = "\b\nExperiments:\n" + "\n".join(
    f"  {name:<7} {entry.title}" for name, entry in EXPERIMENTS.items()
)


@click.command("lab", cls=Verb, epilog=_EPILOG)
@click.argument(
    "experiments", nargs=-1, type=click.Choice([*EXPERIMENTS, ALL]), metavar="EXPERIMENT ..."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    metavar="NUMBER",
    help="About how long, for all of them together.",
)
@click.option(
    "--cases", type=click.IntRange(min=1), metavar="NUMBER", help="At most so many cases of each."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Repeat the choices of an earlier run.",
)
@click.option("--case", metavar="TEXT", help="Repeat one case, as a violation names it.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    metavar="FOLDER",
    help="Work on the disk of this folder, not where temporary files lie.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    default=Path(KEPT_IN),
    help=f"Keep the evidence of violations here, not in ./{KEPT_IN}.",
)
@with_common
def lab(common: Common, /, experiments: tuple[str, ...], **given: Any) -> int:
    """Break Outlast on purpose, and judge what is left.

    Without EXPERIMENT, they are listed. Each works in a new folder of its own and touches no store
    of yours. A violation is printed with the command that repeats it, and its evidence is kept.
    Exit codes: 0 no promise was broken, 1 one was or nothing was tried, 70 an experiment itself
    broke. -v shows figures.
    """
    if not experiments:
        asked = [name for name in ("seconds", "cases", "seed", "case") if given[name] is not None]
        if asked:
            raise click.UsageError(f"--{asked[0]} is for an experiment; name one, or all")
        return _list(common)
    if given["case"] is not None and (len(experiments) > 1 or ALL in experiments):
        raise click.UsageError("--case repeats a case of one experiment; name just that one")
    names = list(EXPERIMENTS) if ALL in experiments else list(dict.fromkeys(experiments))
    return _run(common, names, given)


def _list(common: Common) -> int:
    data = [{"name": name, "title": entry.title} for name, entry in EXPERIMENTS.items()]
    rows = [(name, entry.title) for name, entry in EXPERIMENTS.items()]
    show(common, View(data, [Table(("experiment", "what it does"), rows)]))
    return Exit.FINE


def _run(common: Common, names: Sequence[str], given: dict[str, Any]) -> int:
    from outlast_lab.laboratory import Order, as_data, carry_out

    seed = random.randrange(1 << 31) if given["seed"] is None else given["seed"]
    wanted = {name: given.get(name) for name in ("seconds", "cases", "case", "folder")}
    order = Order(names, seed, keep=given["keep"].absolute(), **wanted)
    progress = _Progress()
    with _ending_politely():
        outcome = carry_out(order, progress.tell)
    progress.over()
    data = {
        "experiments": [as_data(one, order) for one in outcome.done],
        "violations": outcome.found,
        "untried": outcome.untried,
        "interrupted": outcome.was_interrupted,
    }
    lines = [
        *(_figures(outcome.done) if common.is_verbose else ()),
        *_notes(outcome.done),
        *_violations(outcome.done, order),
        *_verdict(outcome),
    ]
    show(common, View(data, [_table(outcome.done), Lines(lines)]))
    if outcome.was_interrupted:
        return Exit.INTERRUPTED
    if outcome.broken:
        return Exit.UNEXPECTED
    return Exit.NO if outcome.found or outcome.untried else Exit.FINE


@contextmanager
def _ending_politely() -> Iterator[None]:
    """Being told to end, or losing the terminal, is taken as Ctrl-C: everything is cleared away."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _table(done: "Sequence[Findings]") -> Table:
    rows = [
        (one.experiment, _cases(one), f"{len(one.violations):,}", f"{one.seconds:.1f}",
         str(one.seed))
        for one in done
    ]  # fmt: skip
    columns = ("experiment", "cases", "violations", "seconds", "seed")
    return Table(columns, rows, numbers=frozenset(columns[1:]), empty="Nothing was done.")


def _cases(one: "Findings") -> str:
    possible = one.figures.get("possible cases")
    return f"{one.cases:,}" if possible is None else f"{one.cases:,} of {_grouped(possible)}"


def _figures(done: "Sequence[Findings]") -> Iterator[str]:
    for one in done:
        yield from [one.experiment] if one.figures else []
        yield from (f"  {name}: {_grouped(value)}" for name, value in one.figures.items())


def _notes(done: "Sequence[Findings]") -> Iterator[str]:
    for one in done:
        yield from (f"{one.experiment}: {note}" for note in one.notes)
        if one.broke is not None:
            yield f"{one.experiment}: the experiment itself broke: {one.broke}"


def _violations(done: "Sequence[Findings]", order: "Order") -> Iterator[str]:
    """One block for each case, and what the words mean that occur."""
    from outlast_lab.laboratory import replay_command

    kinds = {finding.what.partition(":")[0] for one in done for finding in one.violations}
    for one in done:
        by_case: dict[str, list[Finding]] = {}
        for finding in one.violations:
            by_case.setdefault(finding.case, []).append(finding)
        for case, findings in list(by_case.items())[:MOST_SHOWN]:
            yield from ("", f"VIOLATION in {one.experiment}, {case}")
            for finding in findings[:MOST_SHOWN]:
                yield from (f"  {line}" for line in finding.what.splitlines())
            yield f"  try it again: {replay_command(one, case, order)}"
            yield from {f"  evidence: {each.evidence}" for each in findings if each.evidence}
        if len(by_case) > MOST_SHOWN:
            yield f"  and {len(by_case) - MOST_SHOWN} more cases of {one.experiment}"
    meant = [f"  {kind}: {MEANINGS[kind]}" for kind in sorted(kinds & MEANINGS.keys())]
    yield from ["", "The words:", *meant] if meant else []


def _verdict(outcome: "Outcome") -> Iterator[str]:
    found, untried = outcome.found, outcome.untried
    yield ""
    if outcome.was_interrupted:
        yield "Interrupted; what is above is what was seen until then."
    if untried and not found:
        yield f"Nothing was tried by {', '.join(untried)}: give it more time (--seconds)."
    if found:
        yield f"{found} {'violation' if found == 1 else 'violations'}."
    elif not (untried or outcome.broken or outcome.was_interrupted):
        yield "No promise was broken."


def _grouped(value: int | float | str) -> str:
    return f"{value:,}" if isinstance(value, int | float) else value


class _Progress:
    """What happens, on stderr: in one line of a terminal, or a line for each experiment."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._last = ""

    def tell(self, name: str, text: str) -> None:
        """Say how far an experiment is."""
        if self._is_terminal:
            click.echo(f"\r\033[K{name}: {safe(text)[:70]}", err=True, nl=False)
        elif name != self._last:
            click.echo(f"{name} ...", err=True)
        self._last = name

    def over(self) -> None:
        """Leave the line."""
        if self._is_terminal:
            click.echo("\r\033[K", err=True, nl=False)
