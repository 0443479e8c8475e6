"""The figures of the last kept run of each scenario, so that one can be measured anew alone."""

from pathlib import Path

import msgspec

from bench.results import Row

KEPT = Path(__file__).with_name("figures.json")


class Scenario(msgspec.Struct, frozen=True):
    """What a scenario found, on what machine, and what the machine was up to."""

    machine: str
    conditions: str
    rows: list[Row]


Figures = dict[str, Scenario]


def load(path: Path = KEPT) -> Figures:
    if not path.exists():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=Figures)


def keep(name: str, scenario: Scenario, path: Path = KEPT) -> Figures:
    """Put a scenario's figures in place of its older ones; returns all."""
    figures = load(path) | {name: scenario}
    text = msgspec.json.format(msgspec.json.encode(figures), indent=1)
    path.write_bytes(text + b"\n")
    return figures
