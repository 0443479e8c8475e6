"""Who is struck, by descriptors, and who keeps others from writing; and a crowd that is ended."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast_lab.chaos.commands import PROGRAM
from outlast_lab.chaos.targets import (
    Target,
    await_stop,
    keep_others_out,
    let_go,
    send,
    targets_below,
)
from tests.support.children import Child

PATIENCE_SECONDS = 30


def _sits_in_a_transaction(path: str) -> None:
    from outlast import Outlast
    from outlast.host import probe_points
    from tests.support.childside import hear, say

    app = Outlast(path).open()

    def stay(name: str) -> None:
        if name == "enqueue.written":
            say("inside")
            hear()

    say("ready")
    hear()
    probe_points.arm(stay)
    app.enqueue("work")


def test_only_who_is_inside_a_transaction_keeps_others_out(tmp_path: Path) -> None:
    path = tmp_path / "work.db"
    with Child(_sits_in_a_transaction, path) as child:
        target = Target(child.pid, os.pidfd_open(child.pid))
        assert child.hear() == "ready"
        assert not keep_others_out(path, [target])
        child.say()
        assert child.hear() == "inside"
        send(signal.SIGSTOP, [target])
        await_stop([target])
        assert keep_others_out(path, [target])
        assert not keep_others_out(path, [Target(os.getpid(), -1)])
        send(signal.SIGKILL, [target])
        child.wait()
        assert not keep_others_out(path, [target])
        send(signal.SIGCONT, [target])
        let_go([target])


def test_the_processes_below_one_are_found() -> None:
    program = "import subprocess; subprocess.run(['sleep', '600'])"
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as parent:
        below: list[Target] = []
        while not below:
            below = targets_below(parent.pid)
        send(signal.SIGKILL, below)
        assert parent.wait(PATIENCE_SECONDS) == 0
        let_go(below)
    assert targets_below(parent.pid) == []


def test_a_command_of_the_crowd_does_not_outlive_who_started_it() -> None:
    for parent, code in ((os.getpid(), 0), (os.getppid(), -signal.SIGKILL)):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(parent), "--version"],
            capture_output=True,
            check=False,
        )
        assert done.returncode == code


@pytest.mark.parametrize("seconds", [0.5, 3])
def test_chaos_that_is_interrupted_ends_soon_and_leaves_nothing(
    tmp_path: Path, seconds: float
) -> None:
    """Once among the first processes that begin, and once in the midst of it."""
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    command = [sys.executable, "-m", "outlast", "lab", "chaos", "--seed", "1"]
    laboratory = subprocess.Popen(
        [*command, "--folder", str(work), "--keep", str(kept)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not list(work.glob("*/*/records/*.err")) and time.monotonic() < ends_at:
        time.sleep(0.01)
    time.sleep(seconds)
    laboratory.send_signal(signal.SIGINT)
    _, said = laboratory.communicate(timeout=PATIENCE_SECONDS)
    assert "Traceback" not in said
    assert list(work.iterdir()) == []
    assert not kept.exists()
    assert not _named(work)


def _named(folder: Path) -> list[str]:
    """The processes in whose command line a folder stands."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in command:
            found.append(pid)
    return found
