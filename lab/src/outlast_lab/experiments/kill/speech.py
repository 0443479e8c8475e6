"""What the processes of killed lives tell the experiment, by the wire of their fork server."""

import os
import signal
from typing import Any

from outlast_lab.stage.wire import SAYS, Wire

READY, REACHED, RAISED = "ready", "reached", "raised"
PROBE, STATE, LINE = "probe", "state", "line"
SHORT = "short of memory"

# No process on the stage outlives this, whatever becomes of the experiment.
PATIENCE_SECONDS = 60


_audience: list[Wire] = []


def speak_to(wire: Wire) -> None:
    """Let this process and its forks be heard there."""
    _audience[:] = [wire]


def say(value: Any) -> None:
    """Say something to the experiment; a process that is killed has said it whole or not at all."""
    for wire in _audience:
        wire.send([SAYS, value])


def die() -> None:
    """End as `kill -9` would: no handlers, no goodbye."""
    os.kill(os.getpid(), signal.SIGKILL)
