"""A process of the crowd as its supervisor sees it: started, struck, cleared away at the end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from outlast_lab.chaos.programs import Program
from outlast_lab.chaos.targets import Target, targets_below

TICK_SECONDS = 0.02
PATIENCE_SECONDS = 60
_LAST_WORDS = 1500
NO_ENVIRONMENT: Mapping[str, str] = {}


class Member:
    """A process and whatever it starts below it, in a group of their own."""

    def __init__(
        self,
        program: Program,
        path: Path,
        folder: Path,
        seed: str,
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> None:
        self.program = program
        self.is_killed = False
        self._has_ended: bool | None = None
        given: dict[str, Any] = {"program": program, "path": str(path)}
        given |= {"folder": str(folder), "seed": seed}
        given["parent"] = os.getpid()
        self._errors = folder / f"{program.name}.err"
        self._record = folder / f"{program.name}.jsonl"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "outlast_lab.chaos.process", json.dumps(given)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                env={**os.environ, **environment},
            )
        self.itself = Target(self._process.pid, os.pidfd_open(self._process.pid), is_owned=False)

    @property
    def name(self) -> str:
        """Its name in all records."""
        return self.program.name

    @property
    def pid(self) -> int:
        """Its pid, which is nobody else's before it is cleared away."""
        return self._process.pid

    def is_at_work(self) -> bool:
        """Whether it has asked for something yet."""
        return self._record.exists() and self._record.stat().st_size > 0

    def lives(self) -> bool:
        """Whether it has not ended yet; asked without reaping it."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, options) is None

    def wait(self, seconds: float) -> bool:
        """Until it has ended; False when that takes too long."""
        ends_at = time.monotonic() + seconds
        while self.lives():
            if time.monotonic() > ends_at:
                return False
            time.sleep(TICK_SECONDS)
        return True

    def below(self) -> list[Target]:
        """The processes below it, as the kernel knows them now."""
        return targets_below(self.pid)

    def end_all(self) -> None:
        """Kill whatever is left of it and below it, without waiting; it is not reaped yet."""
        self._has_ended = not self.lives()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def clear_away(self) -> str | None:
        """See to the end of all; what went wrong with it, if anything did."""
        if self._has_ended is None:
            self.end_all()
        has_ended = self._has_ended
        code = self._process.wait(PATIENCE_SECONDS)
        os.close(self.itself.descriptor)
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while _is_group(self.pid) and time.monotonic() < ends_at:
            time.sleep(TICK_SECONDS)
        if self.is_killed or (has_ended and code in (0, -signal.SIGTERM)):
            return None
        how = f"ended with {code}" if has_ended else "was asked to leave and did not"
        said = self._errors.read_text(errors="replace").strip()[-_LAST_WORDS:]
        return f"{self.name} ({self.program.role}) {how}: {said}"


def _is_group(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
