"""Rows for the tests of the report."""

from dataclasses import replace

from bench.results import Row

GOOD = Row(
    what="enqueue", ours="90/s", yardstick="raw: 100/s", ratio=0.9, low=0.8, high=1.0,
    at_least=0.5, aim=0.8,
)  # fmt: skip
FAIR = replace(GOOD, what="fair", ratio=0.6)
BAD = replace(GOOD, what="slow", ratio=0.3)
LESS = replace(
    GOOD, what="memory", ratio=45.0, low=44.0, high=46.0, at_least=40, aim=30,
    higher_is_better=False,
)  # fmt: skip
