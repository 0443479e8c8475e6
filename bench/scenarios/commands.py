"""How long the command line takes to say something, over bare Python."""

import statistics
import sys
from pathlib import Path

from bench.load import Sizes
from bench.machine import empty_folder
from bench.paired import rotated, summary
from bench.results import Row, at_most
from bench.starts import processor_ms
from outlast import Outlast

BARE = "bare"
BOUNDS = {"outlast --help": 60, "outlast health --json": 250}


def run(sizes: Sizes) -> list[Row]:
    with empty_folder() as folder:
        path = folder / "work.db"
        with Outlast(path) as app:
            app.enqueue("nothing")
        return rows(sizes, path)


def rows(sizes: Sizes, path: Path) -> list[Row]:
    python = [sys.executable, "-m", "outlast"]
    commands = {
        BARE: [sys.executable, "-c", "pass"],
        "outlast --help": [*python, "--help"],
        "outlast health --json": [*python, "--store", str(path), "health", "--json"],
    }
    found: dict[str, list[float]] = {name: [] for name in commands}
    bare: list[float] = []
    for block in range(-1, sizes.blocks):
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(sizes.starts if block >= 0 else 1):
            for name in rotated(list(commands), number):
                times[name].append(processor_ms(commands[name]))
        if block >= 0:
            bare.append(statistics.median(times[BARE]))
            for name in BOUNDS:
                found[name].append(statistics.median(times[name]) - bare[-1])
    return [row(name, found[name], statistics.median(bare)) for name in BOUNDS]


def row(name: str, values: list[float], bare_ms: float) -> Row:
    result = summary(values)
    return at_most(
        f"{name}, over bare Python",
        f"{result.median:.0f} ms",
        result,
        BOUNDS[name],
        yardstick=f"bare Python: {bare_ms:.0f} ms",
        note="milliseconds of processor time",
    )
