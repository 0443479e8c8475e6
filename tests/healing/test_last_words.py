"""What is said of a dead worker's memory: what it used, and whether the kernel ran out of it."""

import re
import signal
import time
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.host import memory
from outlast.host.memory import OomKills
from outlast.store.sqlite.presence.worker_lock_file import LockFile, read_begun
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from tests.healing.stage import Holder
from tests.support.children import Child

EATEN_MIB = 200
PATIENCE_SECONDS = 20
HINT = "the kernel killed for want of memory meanwhile"


@pytest.mark.parametrize(
    ("more", "is_elsewhere", "is_said"),
    [(0, False, False), (1, False, True), (-1, False, False), (1, True, False)],
    ids=["none", "one more", "fewer than before", "one more in another group"],
)
def test_the_kernels_killings_count_only_if_the_same_group_counted_more(
    app: Outlast, monkeypatch: pytest.MonkeyPatch, more: int, is_elsewhere: bool, is_said: bool
) -> None:
    """Guards what is said of the kernel: the healer's own count says nothing of another's group,
    and a count that fell belongs to another group or began anew."""
    app.enqueue("transcode", id="t")
    before = memory.oom_kills()
    assert before is not None
    now = OomKills(before.group + is_elsewhere, before.kills + more)
    with Holder(app.path, "w") as holder:
        assert holder.claims() == ["t"]
        holder.dies_of(signal.SIGKILL)
        monkeypatch.setattr(memory, "oom_kills", lambda: now)
        app.heal()
    said = "SIGKILL, " + HINT if is_said else "SIGKILL"
    assert app.get("t").error == (
        f"worker w (pid {holder.pid}) died while running this task of kind transcode: {said}"
        " (its lock is free)"
    )


def test_where_the_kernel_counts_nothing_nothing_is_said_of_it(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards a healer that cannot read the count: it has nothing to compare."""
    app.enqueue("transcode", id="t")
    with Holder(app.path, "w") as holder:
        holder.claims()
        holder.dies_of(signal.SIGKILL)
        monkeypatch.setattr(memory, "oom_kills", lambda: None)
        app.heal()
    assert HINT not in str(app.get("t").error)


def test_which_group_was_counted_survives_the_process_and_a_torn_mark_is_none(
    tmp_path: Path,
) -> None:
    """Guards the mark beside the count: one that cannot be trusted compares with nothing."""
    side = SideFolder(tmp_path / "work.db")
    side.make()
    lock = LockFile(side, "a" * 32)
    assert read_begun(lock.descriptor, "a" * 32).memory_group is None
    lock.note_memory_group(1 << 40)
    begun = read_begun(lock.descriptor, "a" * 32)
    assert (begun.whole, begun.memory_group, begun.peak_memory_bytes) == (True, 1 << 40, None)
    with lock.path.open("r+b") as file:
        file.seek(96)
        file.write(b"\x01")
    begun = read_begun(lock.descriptor, "a" * 32)
    assert (begun.whole, begun.memory_group) == (True, None)
    lock.remove()


def test_a_group_of_memory_is_known_by_more_than_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards containers: each sees its own group as `/`, and their counts are not one another's."""
    groups = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "memory.events").write_text("oom 1\noom_kill 3\n")
        monkeypatch.setattr(memory, "CGROUPS", str(tmp_path / name))
        monkeypatch.setattr(memory, "own_group", lambda: "/")
        counted = memory.oom_kills()
        assert counted is not None
        assert counted.kills == 3
        groups.append(counted.group)
    assert groups[0] != groups[1]


def _eats(path: str, megabytes: int) -> None:
    import threading

    from outlast import Outlast, Settings
    from tests.support.childside import say

    # The first beat comes before the task, and the next one long after the worker's end.
    def eats() -> None:
        held = bytearray(megabytes << 20)
        say(len(held))
        threading.Event().wait()

    app = Outlast(path, settings=Settings(heartbeat_interval_seconds=90))
    app.task(eats)
    app.worker(name="w", concurrency=1).run()


def noted_peak(database: Path) -> int:
    """What the worker's lock file says of its memory."""
    (lock,) = Path(f"{database}-outlast", "workers").glob("*.lock")
    with lock.open("rb") as file:
        return read_begun(file.fileno(), lock.stem).peak_memory_bytes or 0


def test_a_worker_that_was_killed_left_its_signal_and_its_peak_of_memory(app: Outlast) -> None:
    """Guards the whole way: a real worker notes what its handler uses, is killed, and the error of
    its task says by which signal and with how much memory, which no beat had told of yet."""
    app.enqueue("eats", id="t")
    with Child(_eats, app.path, EATEN_MIB) as worker:
        assert worker.hear() == EATEN_MIB << 20
        deadline = time.monotonic() + PATIENCE_SECONDS
        while noted_peak(app.path) < EATEN_MIB << 20:
            assert time.monotonic() < deadline, "the worker has not noted what it uses"
            time.sleep(0.05)
        worker.dies_of(signal.SIGKILL)
        app.heal()
    error = str(app.get("t").error)
    assert error.startswith(
        f"worker w (pid {worker.pid}) died while running this task of kind eats"
    )
    found = re.search(r": SIGKILL, peak (\d+)\.\d MiB \(its lock is free\)$", error)
    assert found is not None, error
    assert EATEN_MIB <= int(found[1]) < 3 * EATEN_MIB
