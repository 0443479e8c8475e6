"""The laboratory's end of the stage on which cases of misuse are played."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

CASE_SECONDS = 60
GOODBYE_SECONDS = 10


class Stage:
    """A process that plays cases one after another, when it is told to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "outlast_lab.misuse.serving", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # An interrupt from the keyboard is for the laboratory, which ends its stages itself.
            start_new_session=True,
        )

    def play(self, name: str, folder: Path) -> dict[str, Any]:
        """Play a case in a folder: what was broken, or why it cannot be played here."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([name, str(folder)]) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            return {"broken": ["the stage itself fell"], "note": None}
        verdict: dict[str, Any] = json.loads(line)
        return verdict

    def break_off(self) -> None:
        """End it together with the case that it plays; returns once they are gone."""
        self._process.terminate()
        self._await_end(GOODBYE_SECONDS)

    def close(self) -> None:
        """No more cases."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._await_end(CASE_SECONDS)
        self._process.stdout.close()

    def _await_end(self, seconds: float) -> None:
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        finally:
            # It has ended, or else the case under way goes with it, by the kernel's hand.
            self._process.kill()
            self._process.wait()
