"""The command as a person has it: a process of its own, in a pipe or on a terminal."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

DEADLINE_SECONDS = 60


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Ours without OUTLAST_ variables, and the home of nobody."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("OUTLAST_")}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        kept.pop(name, None)
    return kept | {"HOME": str(folder), "TERM": "xterm-256color"} | more


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "outlast", *map(str, words)]


def piped(
    folder: Path, *words: str | Path, input: str = "", **more: str
) -> "subprocess.CompletedProcess[str]":
    """The command in a pipe, run to its end."""
    return subprocess.run(
        command(*words),
        cwd=folder,
        env=environment(folder, **more),
        input=input,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


class Terminal:
    """The command on a terminal of its own, eighty columns wide unless told otherwise."""

    def __init__(self, folder: Path, *words: str | Path, columns: int = 80, **more: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            command(*words),
            cwd=folder,
            env=environment(folder, **more),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""

    def write(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, words: str) -> str:
        """Everything seen so far, once these words are among it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while words not in self.seen:
            assert time.monotonic() < deadline, self.seen
            assert self._read(deadline), f"it ended without saying {words!r}: {self.seen}"
        return self.seen

    def finish(self) -> int:
        """Its exit code, after everything it had to say."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._read(deadline):
            assert time.monotonic() < deadline, self.seen
        return self.process.wait(DEADLINE_SECONDS)

    def _read(self, deadline: float) -> bool:
        """Reads on; False at the end, which a terminal reports as an error."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        try:
            found = os.read(self._ours, 65536) if ready else b""
        except OSError:
            return False
        self.seen += found.decode(errors="replace")
        return bool(found)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *details: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE_SECONDS)
        os.close(self._ours)
