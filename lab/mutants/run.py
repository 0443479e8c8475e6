"""`./run lab mutants`: tries out the catalogue's mutants and tells which were found, in a table."""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import msgspec

from lab.mutants.catalogue import FOLDER, TESTS, CatalogueError, Mutant, mutants_in
from lab.mutants.trial import Trial, Verdict, Workshop

NAME_WIDTH, EXPERIMENT_WIDTH, VERDICT_WIDTH = 32, 8, 14


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[NAME ...]")
@click.option("--jobs", type=click.IntRange(min=1), default=2, help="Trials at the same time.")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON document.")
@click.option(
    "--catalogue",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=FOLDER,
    help="The folder of the mutants' files.",
)
@click.option(
    "--natural",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="Aim at nothing: give each experiment so long, without the mutant's own arguments.",
)
def main(
    names: Sequence[str], jobs: int, as_json: bool, catalogue: Path, natural: float | None
) -> None:
    """Apply each deliberate defect to a copy of Outlast and see its experiment or test find it.

    As a rule each experiment is pointed to a case that shows the defect, which proves that it would
    be recognised. With --natural it has to come upon it by itself. Defects that only tests can see
    name the tests that must fail.

    The exit code is 1 when a mutant survives or does not count: one that no longer passes the
    first example, whose text is not in the source, or whose experiment is not silent without it.
    """
    try:
        mutants = mutants_in(catalogue, names)
        if natural is not None:
            mutants = [unaimed(mutant, natural) for mutant in mutants]
    except CatalogueError as error:
        raise click.UsageError(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="outlast-mutants-") as folder:
        trials: list[Trial] = []
        for trial in _tried(Workshop(Path(folder)), mutants, jobs):
            if not as_json:
                click.echo(line(trial) if trials else f"{heading()}\n{line(trial)}")
            trials.append(trial)
    click.echo(document(trials) if as_json else summary(trials))
    sys.exit(0 if all(one.verdict is Verdict.KILLED for one in trials) else 1)


def unaimed(mutant: Mutant, seconds: float) -> Mutant:
    """The same mutant, with an experiment that is told nothing but how long it may take.

    Tests take their own time, and there is nothing to come upon.
    """
    if mutant.found_by == TESTS:
        return mutant
    return msgspec.structs.replace(mutant, arguments=(), seconds=seconds)


def _tried(workshop: Workshop, mutants: Sequence[Mutant], jobs: int) -> Iterator[Trial]:
    with ThreadPoolExecutor(jobs) as executor:
        try:
            yield from executor.map(workshop.try_out, mutants)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def heading() -> str:
    """The names of the table's columns."""
    return (
        f"{'mutant':<{NAME_WIDTH}} {'blind':<5} {'found by':<{EXPERIMENT_WIDTH}} {'seconds':>7}"
        f"  {'verdict':<{VERDICT_WIDTH}}  what was said first"
    )


def line(trial: Trial) -> str:
    """One mutant's row of the table."""
    mutant = trial.mutant
    return (
        f"{mutant.name:<{NAME_WIDTH}} {'yes' if mutant.blind else 'no':<5}"
        f" {mutant.found_by:<{EXPERIMENT_WIDTH}} {trial.seconds:>7.1f}"
        f"  {trial.verdict:<{VERDICT_WIDTH}}  {trial.said}"
    )


def summary(trials: Sequence[Trial]) -> str:
    """The last line: how many were killed, and whether any was not."""
    verdicts = [trial.verdict for trial in trials]
    uncounted = verdicts.count(Verdict.NOT_COUNTED)
    rest = f", {uncounted} that do not count" if uncounted else ""
    killed, survived = verdicts.count(Verdict.KILLED), verdicts.count(Verdict.SURVIVED)
    return f"{killed} killed, {survived} survived{rest}"


def document(trials: Sequence[Trial]) -> str:
    """The same for programs."""
    rows = [
        {
            "name": trial.mutant.name,
            "defect": trial.mutant.defect,
            "blind": trial.mutant.blind,
            "experiment": trial.mutant.found_by,
            "verdict": trial.verdict,
            "said": trial.said,
            "seconds": round(trial.seconds, 2),
        }
        for trial in trials
    ]
    verdicts = [trial.verdict for trial in trials]
    figures = {
        "killed": verdicts.count(Verdict.KILLED),
        "survived": verdicts.count(Verdict.SURVIVED),
        "not_counted": verdicts.count(Verdict.NOT_COUNTED),
    }
    told = msgspec.json.encode({"mutants": rows, **figures})
    return msgspec.json.format(told, indent=2).decode()


if __name__ == "__main__":
    main(prog_name="./run lab mutants")
