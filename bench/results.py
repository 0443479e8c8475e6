"""One line of the benchmark table: what every scenario hands to the report."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    ours: str
    yardstick: str
    ratio: float
    low: float
    high: float
    at_least: float | None
    aim: float | None
    higher_is_better: bool = True
    note: str = ""
