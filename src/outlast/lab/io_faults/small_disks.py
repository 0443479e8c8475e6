"""Real limits for `lab io`: file systems of some hundred KiB, and a largest size for files."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from outlast.lab.history import read_lines
from outlast.lab.io_faults.filling import DATABASE, NOT_ALLOWED
from outlast.lab.io_faults.judging import Left, judge
from outlast.lab.io_faults.trial import NOTE

_PATIENCE_SECONDS = 120

# Some are too small for the tables, some for the first lock file, and some for the next task.
CASES = [
    *(f"small disk of {kib} KiB" for kib in (0, 48, 300, 600, 900, 1200, 1800)),
    *(f"largest file of {kib} KiB" for kib in (64, 200, 500, 800)),
]


class Told(NamedTuple):
    """What came of one such case."""

    was_full: bool
    acknowledged: int
    violations: list[str]
    notes: list[str]


def play(case: str, folder: Path) -> Told:
    """Fill a file system, or meet the limit, and judge what is left."""
    sort = "disk" if case.startswith("small disk") else "file"
    kib = case.split()[-2]
    with tempfile.TemporaryDirectory(dir=folder, prefix="disk-") as name:
        done = subprocess.run(
            [sys.executable, "-m", "outlast.lab.io_faults.filling", sort, kib, name],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        if done.returncode == NOT_ALLOWED:
            return Told(False, 0, [], [f"{case}: no file system may be mounted here"])
        if done.returncode:
            return Told(False, 0, [f"it could not be played: {done.stderr[-500:]}"], [])
        return _judged(Path(name), json.loads(done.stdout)["status"])


def _judged(folder: Path, status: int) -> Told:
    record = folder / "history.jsonl"
    lines = read_lines(record) if record.exists() else []
    notes = {line[1]: line[2] for line in lines if line[0] == NOTE}
    told = [line for line in lines if line[0] != NOTE]
    found = judge(Left(told, notes, status, folder / "store" / DATABASE))
    return Told(bool(notes.get("struck")), notes.get("stored", 0), found, [])
