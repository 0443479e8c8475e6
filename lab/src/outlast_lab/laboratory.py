"""Running experiments one after another: a folder for each, and a share of the time."""

import logging
import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from outlast.errors import OutlastError
from outlast_lab.experiment import Findings, Plan
from outlast_lab.experiments import experiment

log = logging.getLogger("outlast.lab")


@dataclass(frozen=True, slots=True)
class Order:
    """What was ordered: which experiments, how large, where."""

    names: Sequence[str]
    seed: int
    seconds: float | None = None
    """For all of them together."""
    cases: int | None = None
    case: str | None = None
    folder: Path | None = None
    keep: Path | None = None


Tell = Callable[[str, str], None]


@dataclass(slots=True)
class Outcome:
    """What came of an order, as far as it was carried out."""

    done: list[Findings] = field(default_factory=list)
    was_interrupted: bool = False

    @property
    def found(self) -> int:
        """How many promises were seen broken."""
        return sum(len(one.violations) for one in self.done)

    @property
    def untried(self) -> list[str]:
        """The experiments that came to nothing: their silence means nothing."""
        return [one.experiment for one in self.done if not one.cases]

    @property
    def broken(self) -> list[Findings]:
        """The experiments that ended by an error of their own."""
        return [one for one in self.done if one.broke is not None]


def carry_out(order: Order, tell: Tell) -> Outcome:
    """Run what was ordered; `tell` hears the experiment's name and how far it is."""
    outcome = Outcome()
    try:
        _carry_out(order, tell, outcome.done)
    except KeyboardInterrupt:
        outcome.was_interrupted = True
    return outcome


def _carry_out(order: Order, tell: Tell, done: list[Findings]) -> None:
    ends_at = None if order.seconds is None else time.monotonic() + order.seconds
    for number, name in enumerate(order.names):
        # What one experiment leaves of its share, the later ones may use.
        left = None if ends_at is None else max(0.0, ends_at - time.monotonic())
        seconds = None if left is None else left / (len(order.names) - number)
        done.append(_one(name, order, seconds, tell))


def _one(name: str, order: Order, seconds: float | None, tell: Tell) -> Findings:
    with tempfile.TemporaryDirectory(prefix=f"outlast-lab-{name}-", dir=order.folder) as folder:
        plan = Plan(
            Path(folder).resolve(),
            seed=order.seed,
            seconds=seconds,
            cases=order.cases,
            case=order.case,
            keep=None if order.keep is None else _unused(order.keep, f"{name}-{order.seed}"),
            progress=lambda text: tell(name, text),
        )
        tell(name, "begins")
        try:
            findings = experiment(name).run(plan)
        except OutlastError:
            # What was ordered cannot be done, such as a case that there is not.
            raise
        except Exception as error:
            log.debug("experiment %s broke", name, exc_info=True)
            broke = f"{type(error).__name__}: {error}"
            findings = Findings(name, 0, [], plan.elapsed_seconds(), order.seed, broke=broke)
        findings.notes += plan.unkept
        return findings


def _unused(folder: Path, name: str) -> Path:
    """A folder for the evidence of this run, and of no other."""
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(folder / one for one in names if not (folder / one).exists())


def as_data(findings: Findings, order: Order) -> dict[str, Any]:
    """Findings for machines, each violation with the words that repeat it."""
    return {
        "experiment": findings.experiment,
        "cases": findings.cases,
        "violations": [
            {
                "what": one.what,
                "case": one.case,
                "replay": replay_command(findings, one.case, order),
                "evidence": None if one.evidence is None else str(one.evidence),
            }
            for one in findings.violations
        ],
        "seconds": round(findings.seconds, 3),
        "seed": findings.seed,
        "figures": findings.figures,
        "notes": findings.notes,
        "broke": findings.broke,
    }


def replay_command(findings: Findings, case: str, order: Order) -> str:
    """What to type to see one case again."""
    words = ["outlast", "lab", findings.experiment, "--seed", str(findings.seed), "--case", case]
    if order.folder is not None:
        words += ["--folder", str(order.folder)]
    return shlex.join(words)
