"""The laboratory's end of the fork server in which cases of misuse are played."""

import os
from pathlib import Path
from typing import Any

from outlast_lab.stage.fork_server import ForkServer, Lost

CASE_SECONDS = 60
GOODBYE_SECONDS = 10


class Stage:
    """A process that plays cases one after another, when it is told to."""

    def __init__(self) -> None:
        self._server = ForkServer("outlast_lab.experiments.misuse.serving:main", os.getpid())

    def play(self, name: str, folder: Path) -> dict[str, Any]:
        """Play a case in a folder: what was broken, or why it cannot be played here."""
        try:
            verdict: dict[str, Any] = self._server.ask("play", name, str(folder))
        except Lost as error:
            return {"broken": [f"the stage itself fell: {error}"], "note": None}
        return verdict

    def break_off(self) -> None:
        """End it together with the case that it plays; returns once they are gone."""
        self._server.terminate(GOODBYE_SECONDS)

    def close(self) -> None:
        """No more cases."""
        self._server.close(CASE_SECONDS)
