"""`outlast lab`: the fault laboratory, on the user's own machine and disk."""

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.exits import Exit
from outlast.cli.text import safe
from outlast.cli.verbs import Common, Verb, with_common
from outlast.cli.views import Lines, Table, View, show
from outlast.lab.experiments import EXPERIMENTS

if TYPE_CHECKING:
    from outlast.lab.experiment import Findings

KEPT_IN = "outlast-lab"
MOST_SHOWN = 10


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
    type=click.Path(exists=True, file_okay=False, path_type=Path),
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

    Without EXPERIMENT, list them.

    Each experiment works in a new folder of its own and touches no store of yours. A violation is
    printed with the command that repeats it, and its evidence is kept. Exit codes: 0 no promise
    was broken, 1 one was.
    """
    if not experiments:
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
    from outlast.lab.laboratory import Order, as_data, carry_out

    seed = random.randrange(1 << 31) if given["seed"] is None else given["seed"]
    wanted = {name: given.get(name) for name in ("seconds", "cases", "case", "folder")}
    progress = _Progress()
    done = carry_out(Order(names, seed, keep=given["keep"].absolute(), **wanted), progress.tell)
    progress.over()
    found = sum(len(one.violations) for one in done)
    data = {"experiments": [as_data(one) for one in done], "violations": found}
    show(common, View(data, [_table(done), Lines(list(_words(done, found)))]))
    return Exit.NO if found else Exit.FINE


def _table(done: "Sequence[Findings]") -> Table:
    rows = [
        (one.experiment, f"{one.cases:,}", f"{len(one.violations):,}", f"{one.seconds:.1f}",
         str(one.seed))
        for one in done
    ]  # fmt: skip
    columns = ("experiment", "cases", "violations", "seconds", "seed")
    return Table(columns, rows, numbers=frozenset(columns[1:]))


def _words(done: "Sequence[Findings]", found: int) -> list[str]:
    from outlast.lab.laboratory import replay_command

    lines = []
    for one in done:
        lines += [one.experiment] if one.figures or one.notes else []
        lines += [f"  {name}: {_grouped(value)}" for name, value in one.figures.items()]
        lines += [f"  not tried here: {note}" for note in one.notes]
        for finding in one.violations[:MOST_SHOWN]:
            lines += ["", f"VIOLATION in {one.experiment}, {finding.case}"]
            lines += [f"  {line}" for line in finding.what.splitlines()]
            lines += [f"  see it again: {replay_command(one, finding.case)}"]
            lines += [f"  evidence: {finding.evidence}"] if finding.evidence else []
        if len(one.violations) > MOST_SHOWN:
            lines += [
                f"  and {len(one.violations) - MOST_SHOWN} more violations in {one.experiment}"
            ]
    return [*lines, "", f"{found} violations." if found else "No promise was broken."]


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
