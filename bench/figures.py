"""The figures of the last kept run of each scenario, so that one can be measured anew alone."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.results import Row

KEPT = Path(__file__).with_name("figures.json")


class Scenario(msgspec.Struct, frozen=True):
    """What a scenario found, and on what machine."""

    machine: str
    rows: list[Row]


Figures = dict[str, Scenario]


def load(path: Path = KEPT) -> Figures:
    if not path.exists():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=Figures)


def keep(name: str, machine: str, rows: Sequence[Row], path: Path = KEPT) -> Figures:
    """Put a scenario's figures in place of its older ones; returns all."""
    figures = load(path) | {name: Scenario(machine, list(rows))}
    text = msgspec.json.format(msgspec.json.encode(figures), indent=1)
    path.write_bytes(text + b"\n")
    return figures
