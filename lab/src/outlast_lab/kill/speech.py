"""How the processes on the stage talk: one JSON value a line, each line by one write."""

import json
import os
import signal
import sys
from typing import Any

OVER, READY, REACHED, RAISED = "over", "ready", "reached", "raised"
PROBE, STATE, LINE = "probe", "state", "line"
SHORT = "short of memory"

# No process on the stage outlives this, whatever becomes of the experiment.
PATIENCE_SECONDS = 60


def say(value: Any) -> None:
    """Say something to the experiment; a process that is killed has said it whole or not at all."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def hear() -> Any:
    """The next request, or None when there are no more."""
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def die() -> None:
    """End as `kill -9` would: no handlers, no goodbye."""
    os.kill(os.getpid(), signal.SIGKILL)
