"""The experiments by name; each is imported when it is run."""

from importlib import import_module
from typing import NamedTuple, cast

from outlast_lab.experiment import Experiment


class Entry(NamedTuple):
    """The module of an experiment, and what it does in a few words."""

    module: str
    title: str


EXPERIMENTS = {
    "power": Entry("power", "Power fails at every point; every legal disk is judged."),
    "io": Entry("io_faults", "Reads, writes and syncs fail; disks are full."),
    "kill": Entry("kill", "SIGKILL at every named point and at random moments."),
    "zombie": Entry("zombie.running", "Stopped holders come back after others took over."),
    "chaos": Entry("chaos.running", "Many processes are killed, stopped and restarted."),
    "clock": Entry("clock.running", "Clocks are set, namespaced, frozen."),
    "misuse": Entry("misuse.running", "Second copies, forks, removed files, foreign files."),
    "model": Entry("model", "A seeded simulator checks every step by a model."),
}


def experiment(name: str) -> Experiment:
    """The module of an experiment."""
    return cast(Experiment, import_module(f"{__name__}.{EXPERIMENTS[name].module}"))
