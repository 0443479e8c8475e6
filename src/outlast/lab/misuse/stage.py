"""The laboratory's end of the stage on which cases of misuse are played."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CASE_SECONDS = 60


class Stage:
    """A process that plays cases one after another, when it is told to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "outlast.lab.misuse.serving"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def play(self, name: str, folder: Path) -> dict[str, Any]:
        """Play a case in a folder: what was broken, or why it cannot be played here."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, str(folder)]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            return {"broken": ["the stage itself fell"], "note": None}
        verdict: dict[str, Any] = json.loads(line)
        return verdict

    def close(self) -> None:
        """No more cases."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(CASE_SECONDS)
        self._process.stdout.close()
