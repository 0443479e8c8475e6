"""Running experiments one after another: a folder for each, and a share of the time."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast.lab.experiment import Findings, Plan
from outlast.lab.experiments import experiment


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


def carry_out(order: Order, tell: Tell) -> list[Findings]:
    """Run what was ordered; `tell` hears the experiment's name and how far it is."""
    done: list[Findings] = []
    ends_at = None if order.seconds is None else time.monotonic() + order.seconds
    for number, name in enumerate(order.names):
        # What one experiment leaves of its share, the later ones may use.
        left = None if ends_at is None else max(0.0, ends_at - time.monotonic())
        seconds = None if left is None else left / (len(order.names) - number)
        done.append(_one(name, order, seconds, tell))
    return done


def _one(name: str, order: Order, seconds: float | None, tell: Tell) -> Findings:
    with tempfile.TemporaryDirectory(prefix=f"outlast-lab-{name}-", dir=order.folder) as folder:
        plan = Plan(
            Path(folder).resolve(),
            seed=order.seed,
            seconds=seconds,
            cases=order.cases,
            case=order.case,
            keep=None if order.keep is None else order.keep / name,
            progress=lambda text: tell(name, text),
        )
        tell(name, "begins")
        return experiment(name).run(plan)


def as_data(findings: Findings) -> dict[str, Any]:
    """Findings for machines, each violation with the words that repeat it."""
    return {
        "experiment": findings.experiment,
        "cases": findings.cases,
        "violations": [
            {
                "what": one.what,
                "case": one.case,
                "replay": replay_command(findings, one.case),
                "evidence": None if one.evidence is None else str(one.evidence),
            }
            for one in findings.violations
        ],
        "seconds": round(findings.seconds, 3),
        "seed": findings.seed,
        "figures": findings.figures,
        "notes": findings.notes,
    }


def replay_command(findings: Findings, case: str) -> str:
    """What to type to see one case again."""
    quoted = "'" + case.replace("'", "'\\''") + "'"
    return f"outlast lab {findings.experiment} --seed {findings.seed} --case {quoted}"
