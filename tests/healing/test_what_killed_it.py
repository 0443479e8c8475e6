"""Forensics: the signal and the memory of a dead process, as far as the kernel still tells."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.host import processes
from outlast.store.records import Grant
from outlast.store.sqlite.presence.worker_lock_file import LockFile, read_begun
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.testing import ManualClock
from tests.healing.stage import Holder

GIGABYTES = 3 << 30


def lock_file(folder: Path) -> LockFile:
    side = SideFolder(folder / "work.db")
    side.make()
    return LockFile(side, "a" * 32)


def asleep() -> tuple[subprocess.Popen[bytes], int]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    found = processes.process_stat(process.pid)
    assert found is not None
    return process, found[1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_the_signal_of_a_corpse_is_read_until_it_is_reaped(number: signal.Signals) -> None:
    process, started = asleep()
    descriptor = os.pidfd_open(process.pid)
    try:
        assert processes.exit_signal(process.pid, started, descriptor) is None, "it lives"
        process.send_signal(number)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert processes.exit_signal(process.pid, started) == number
        assert processes.exit_signal(process.pid, started + 100) is None, "somebody else's number"
        process.wait()
        assert processes.exit_signal(process.pid, started) is None
        # Kernels before 6.15 have forgotten it by now.
        assert processes.exit_signal(process.pid, started, descriptor) in (number, None)
    finally:
        process.kill()
        process.wait()
        os.close(descriptor)


def test_a_process_that_ended_by_itself_died_of_no_signal() -> None:
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(9)"])
    found = processes.process_stat(process.pid)
    assert found is not None
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert processes.exit_signal(process.pid, found[1]) is None
    process.wait()


def test_the_error_names_the_signal_and_the_memory(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("transcode", id="t")
    with Holder(app.path, "w") as holder:
        assert holder.claims() == ["t"]
        holder.dies_of(signal.SIGKILL)
        app.heal()
    assert app.get("t").error == (
        f"worker w (pid {holder.pid}) died while running this task of kind transcode: SIGKILL"
        " (its lock is free)"
    )


def test_a_task_that_dies_beside_another_is_not_blamed_for_it(app: Outlast) -> None:
    """The one that was lost more often is the likelier culprit."""
    app.enqueue("poison", id="poison")
    for round_number in range(4):
        if round_number == 1:
            app.enqueue("innocent", id="innocent", priority=-1)
        with Holder(app.path, f"w{round_number}") as holder:
            holder.claims(2)
            holder.signal(signal.SIGKILL)
            holder.wait()
        app.heal()
    culprit, bystander = app.recovery_status().suspects
    assert (culprit.task_id, bystander.task_id) == ("poison", "innocent")
    assert culprit.likely_cause.startswith("it ends the process that runs it")
    assert bystander.likely_cause == (
        "it ran beside task poison, which was lost more often and may be the one to blame"
    )


def test_of_those_that_always_die_together_none_is_named_the_culprit(app: Outlast) -> None:
    app.enqueue_many("work", range(3))
    for round_number in range(4):
        with Holder(app.path, f"w{round_number}") as holder:
            assert len(holder.claims(3)) == 3
            holder.signal(signal.SIGKILL)
            holder.wait()
        app.heal()
    suspects = app.recovery_status().suspects
    assert [one.recoveries for one in suspects] == [4, 4, 4]
    for one in suspects:
        assert one.likely_cause.startswith("its process died while it ran beside 2 other tasks")


def test_the_most_memory_a_process_was_seen_to_use_survives_it(tmp_path: Path) -> None:
    lock = lock_file(tmp_path)
    lock.note(Grant(7, 1, 1))
    assert read_begun(lock.descriptor, "a" * 32).peak_memory_bytes is None
    lock.note_memory(GIGABYTES)
    begun = read_begun(lock.descriptor, "a" * 32)
    assert (begun.whole, begun.tasks, begun.peak_memory_bytes) == (
        True,
        frozenset({(7, 1)}),
        GIGABYTES,
    )
    lock.remove()


def test_a_torn_figure_is_none_and_costs_no_refund(tmp_path: Path) -> None:
    lock = lock_file(tmp_path)
    lock.note(Grant(7, 1, 1))
    lock.note_memory(GIGABYTES)
    with lock.path.open("r+b") as file:
        file.seek(80)
        file.write(b"\x01")
    begun = read_begun(lock.descriptor, "a" * 32)
    assert (begun.whole, begun.tasks, begun.peak_memory_bytes) == (True, frozenset({(7, 1)}), None)
    lock.remove()
