"""The experiments by name; each is imported when it is run."""

from importlib import import_module
from typing import NamedTuple, cast

from outlast.lab.experiment import Experiment


class Entry(NamedTuple):
    """Where an experiment lives, and what it does in a few words."""

    module: str
    title: str


EXPERIMENTS = {
    "power": Entry("outlast.lab.power", "Power fails at every point; every legal disk is judged."),
    "io": Entry("outlast.lab.io_faults", "Reads, writes and syncs fail; disks are full."),
    "kill": Entry("outlast.lab.kill", "SIGKILL at every named point and at random moments."),
    "zombie": Entry("outlast.lab.zombie", "Stopped holders come back after others took over."),
    "chaos": Entry("outlast.lab.chaos", "Many processes are killed, stopped and restarted."),
    "clock": Entry("outlast.lab.clock", "Clocks are set, namespaced, frozen."),
    "misuse": Entry("outlast.lab.misuse", "Second copies, forks, removed files, foreign files."),
    "model": Entry("outlast.lab.model", "A seeded simulator checks every step by a model."),
}


def experiment(name: str) -> Experiment:
    """The module of an experiment."""
    return cast(Experiment, import_module(EXPERIMENTS[name].module))
