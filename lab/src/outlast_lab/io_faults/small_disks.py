"""Real limits for `lab io`: file systems of some hundred KiB, and a largest size for files."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from outlast_lab.history import read_lines
from outlast_lab.io_faults.filling import DATABASE, NOT_ALLOWED
from outlast_lab.io_faults.judging import Left, judge
from outlast_lab.io_faults.trial import NOTE

_PATIENCE_SECONDS = 120

# Some are too small for the tables, some for the first lock file, and some for the next task.
# The first of them hold some tasks, for where there is only time for one.
CASES = [
    *(f"small disk of {kib} KiB" for kib in (900, 0, 48, 300, 600, 1200, 1800)),
    *(f"largest file of {kib} KiB" for kib in (800, 64, 200, 500)),
]

Keep = Callable[[list[Path]], Path | None]


class Told(NamedTuple):
    """What came of one such case."""

    was_full: bool
    acknowledged: int
    violations: list[str]
    notes: list[str]
    evidence: Path | None = None


def play(case: str, folder: Path, keep: Keep = lambda paths: None) -> Told:
    """Fill a file system, or meet the limit, and judge what is left; keep it if it is wrong."""
    sort = "disk" if case.startswith("small disk") else "file"
    kib = case.split()[-2]
    with tempfile.TemporaryDirectory(dir=folder, prefix="disk-") as name:
        code, output, trouble = _filled([sort, kib, name])
        if code == NOT_ALLOWED:
            return Told(False, 0, [], [f"{case}: no file system may be mounted here"])
        left = [Path(name) / "store", Path(name) / "history.jsonl"]
        if code:
            what = [f"it could not be played: {trouble[-500:]}"]
            return Told(False, 0, what, [], keep(left))
        told = _judged(Path(name), json.loads(output)["status"])
        return told._replace(evidence=keep(left)) if told.violations else told


def _filled(arguments: list[str]) -> tuple[int, str, str]:
    """How the filling process ended and what it said; it and what it forked are gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "outlast_lab.io_faults.filling", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        output, trouble = process.communicate(timeout=_PATIENCE_SECONDS)
        return process.returncode, output, trouble
    except subprocess.TimeoutExpired:
        return 1, "", f"it was not done after {_PATIENCE_SECONDS} s"
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _judged(folder: Path, status: int) -> Told:
    record = folder / "history.jsonl"
    lines = read_lines(record) if record.exists() else []
    notes = {line[1]: line[2] for line in lines if line[0] == NOTE}
    told = [line for line in lines if line[0] != NOTE]
    found = judge(Left(told, notes, status, folder / "store" / DATABASE))
    return Told(bool(notes.get("struck")), notes.get("stored", 0), found, [])
