"""Misuse that is ended leaves nobody and nothing behind; and misuse by an ordinary user."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.children import Child

PATIENCE_SECONDS = 30


@pytest.fixture
def anybodys_folder() -> Iterator[Path]:
    """A folder that every user of the machine can reach and write."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


def _plays_as_an_ordinary_user(folder: str, *names: str) -> None:
    import os
    from pathlib import Path

    from outlast.app.process_hooks import backend
    from outlast_lab.experiments.misuse import serving
    from outlast_lab.experiments.misuse.cases import CASES
    from tests.support.childside import say

    backend()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    for number, name in enumerate(names):
        of_the_case = Path(folder, f"case {number}")
        of_the_case.mkdir()
        say(serving._verdict(CASES[name], of_the_case))


def test_an_ordinary_user_who_may_not_write_is_refused_and_nothing_is_touched(
    anybodys_folder: Path,
) -> None:
    names = [
        "stranger: a read-only file",
        "stranger: a file that cannot be read",
        "stranger: a read-only folder",
        "stranger: gate is a symbolic link",
        "journal mode: changed at rest",
    ]
    with Child(_plays_as_an_ordinary_user, anybodys_folder, *names) as child:
        verdicts = child.hear_all()
        assert child.wait() == 0, child.error()
    assert dict(zip(names, verdicts, strict=True)) == {
        name: {"broken": [], "note": None} for name in names
    }


def _living(folder: Path) -> set[int]:
    """The processes that work in a folder: everybody who has a file in it open, or its name."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        if any(link.startswith(f"{folder}/") for link in links):
            found.add(int(pid))
    return found


def _stages_of(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        texts = [Path(f"/proc/{pid}/task/{one}/children").read_text() for one in threads]
    except OSError:
        return []
    return [int(child) for text in texts for child in text.split()]


def _any_runs(pids: list[int]) -> bool:
    return any(os.path.exists(f"/proc/{pid}/exe") for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_laboratory_that_is_ended_leaves_no_process_and_no_evidence(
    tmp_path: Path, number: signal.Signals
) -> None:
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    command = [sys.executable, "-m", "outlast", "lab", "misuse", "--seed", "1"]
    laboratory = subprocess.Popen(
        [*command, "--folder", str(work), "--keep", str(kept)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not _living(work) and time.monotonic() < ends_at:
        time.sleep(0.01)
    stages = _stages_of(laboratory.pid)
    assert stages
    os.kill(laboratory.pid, number)
    _, said = laboratory.communicate(timeout=PATIENCE_SECONDS)
    if number == signal.SIGKILL:
        # The kernel ends them one after the other, each when its parent is gone.
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while (_living(work) or _any_runs(stages)) and time.monotonic() < ends_at:
            time.sleep(0.01)
    else:
        assert list(work.iterdir()) == []
    assert _living(work) == set()
    assert not _any_runs(stages)
    assert "Traceback" not in said
    assert not kept.exists()
