"""What it costs a claim to look for the dead before it, while nobody is dead.

Two stores, one that heals at claims and one that does not, take turns claim by claim, so that
whatever the machine is up to meets both. Beside each is a living worker of another process with
tasks in hand: somebody to be judged.
"""

import time
from contextlib import ExitStack
from pathlib import Path

from bench.load import KIND, PAYLOAD, Sizes
from bench.machine import empty_folder
from bench.paired import Rates
from bench.results import Row, rated
from bench.scenarios.detecting import Staff
from outlast import Outlast, Settings

ON, OFF = "on", "off"
WARM_UP = 100


def block(folder: Path, count: int, tasks: int) -> dict[str, float]:
    """Claims a second of both, `count` claims each, with so many tasks there to be claimed."""
    with ExitStack() as stack:
        apps = {}
        for name in (ON, OFF):
            path = folder / name / "work.db"
            path.parent.mkdir()
            Outlast(path).open().close()
            staff = Staff(path)
            stack.callback(staff.dismiss)
            staff.hire(1)
            settings = Settings(heal_at_claim=name == ON)
            apps[name] = stack.enter_context(Outlast(path, settings=settings))
            apps[name].enqueue_many(KIND, [PAYLOAD] * tasks)
        claim_in_turn(apps, WARM_UP)
        return {name: count / spent for name, spent in claim_in_turn(apps, count).items()}


def claim_in_turn(apps: dict[str, Outlast], count: int) -> dict[str, float]:
    """Seconds spent in claims; completing is not on the clock."""
    spent = dict.fromkeys(apps, 0.0)
    for number in range(count):
        for name in (ON, OFF) if number % 2 else (OFF, ON):
            began = time.perf_counter()
            leases = apps[name].claim("w")
            spent[name] += time.perf_counter() - began
            for lease in leases:
                lease.complete()
    return spent


def blocks(sizes: Sizes, tasks: int) -> Rates:
    found: dict[str, list[float]] = {ON: [], OFF: []}
    for _ in range(sizes.blocks):
        with empty_folder() as folder:
            for name, rate in block(folder, sizes.singly, tasks).items():
                found[name].append(rate)
    return found


def run(sizes: Sizes) -> list[Row]:
    busy = blocks(sizes, WARM_UP + sizes.singly)
    idle = blocks(sizes, 0)
    return [
        row(busy, "claim one by one with healing on and nothing stale", (0.9, 0.98)),
        row(idle, "a claim that finds nothing, and then looks for the dead at once", (None, None)),
    ]


def row(rates: Rates, what: str, bounds: tuple[float | None, float | None]) -> Row:
    at_least, aim = bounds
    return rated(what, rates, ON, OFF, named="healing off", at_least=at_least, aim=aim)
