"""The experiments by name; each is imported when it is run."""

from importlib import import_module
from typing import NamedTuple, cast

from outlast_lab.experiment import Experiment


class Entry(NamedTuple):
    """Where an experiment lives, and what it does in a few words."""

    module: str
    title: str


EXPERIMENTS = {
    "power": Entry("outlast_lab.power", "Power fails at every point; every legal disk is judged."),
    "io": Entry("outlast_lab.io_faults", "Reads, writes and syncs fail; disks are full."),
    "kill": Entry("outlast_lab.kill", "SIGKILL at every named point and at random moments."),
    "zombie": Entry("outlast_lab.zombie", "Stopped holders come back after others took over."),
    "chaos": Entry("outlast_lab.chaos", "Many processes are killed, stopped and restarted."),
    "clock": Entry("outlast_lab.clock", "Clocks are set, namespaced, frozen."),
    "misuse": Entry("outlast_lab.misuse", "Second copies, forks, removed files, foreign files."),
    "model": Entry("outlast_lab.model", "A seeded simulator checks every step by a model."),
}


def experiment(name: str) -> Experiment:
    """The module of an experiment."""
    return cast(Experiment, import_module(EXPERIMENTS[name].module))
