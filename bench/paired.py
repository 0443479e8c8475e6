"""Paired blocks: all contestants in turn, the order rotated, ratios taken within a block.

A machine that is slow for a minute is slow for all of a block, so a ratio hardly notices; the
median of the blocks' ratios is the figure, the smallest and the largest are its spread. Where the
speed changes from one second to the next, a block has several short rounds instead of a long one.
"""

import gc
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.machine import empty_folder

BLOCKS = 5

# Gets an empty folder, returns operations per second.
Contestant = Callable[[Path], float]
Rates = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """One contestant's rate over another's, block by block."""

    median: float
    low: float
    high: float


def measure(
    contestants: Mapping[str, Contestant],
    blocks: int = BLOCKS,
    warm_up: Mapping[str, Contestant] | None = None,
    rounds: int = 1,
) -> dict[str, list[float]]:
    """The rates of all contestants, one for each block; `warm_up` runs once and does not count."""
    for contestant in (warm_up or {}).values():
        run_one(contestant)
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for block in range(blocks):
        found: dict[str, list[float]] = {name: [] for name in contestants}
        for number in range(rounds):
            for name in rotated(list(contestants), block + number):
                found[name].append(run_one(contestants[name]))
        for name, of_rounds in found.items():
            # All rounds are of one size, so this is the rate of all of them together.
            rates[name].append(statistics.harmonic_mean(of_rounds))
    return rates


def run_one(contestant: Contestant) -> float:
    """The same start for everyone: an empty folder, no garbage, nothing left to write."""
    with empty_folder() as folder:
        gc.collect()
        os.sync()
        return contestant(folder)


def rotated(names: Sequence[str], by: int) -> list[str]:
    start = by % len(names)
    return [*names[start:], *names[:start]]


def ratio(rates: Rates, of: str, to: str) -> Ratio:
    found = [one / other for one, other in zip(rates[of], rates[to], strict=True)]
    return summary(found)


def summary(values: Sequence[float]) -> Ratio:
    return Ratio(statistics.median(values), min(values), max(values))


def typical(rates: Rates, name: str) -> float:
    return statistics.median(rates[name])
