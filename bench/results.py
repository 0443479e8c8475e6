"""One line of the benchmark table: what every scenario hands to the report."""

from dataclasses import dataclass
from typing import Any

from bench.load import per_second
from bench.paired import Rates, Ratio, ratio, typical


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


def row_of(what: str, ours: str, yardstick: str, found: Ratio, **more: Any) -> Row:
    """A row whose figure and spread were found in several blocks."""
    more.setdefault("aim", None)
    return Row(what, ours, yardstick, found.median, found.low, found.high, **more)


def rated(
    what: str, rates: Rates, of: str, to: str, *, named: str | None = None, **more: Any
) -> Row:
    """How fast one contestant was in terms of another; `named`: what the page calls that one."""
    yardstick = f"{named or to}: {per_second(typical(rates, to))}"
    return row_of(what, per_second(typical(rates, of)), yardstick, ratio(rates, of, to), **more)


def at_most(
    what: str, ours: str, found: Ratio, bound: float | None, *, yardstick: str = "", **more: Any
) -> Row:
    """A figure that is to be small."""
    return row_of(what, ours, yardstick, found, at_least=bound, higher_is_better=False, **more)
