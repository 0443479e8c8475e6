"""Too few descriptors, too little space: refused in one sentence, and nobody is judged by it."""

import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from outlast import NotAStore, Outlast, RecoveryFailed, StoreReplaced, StoreUnwritable
from outlast.store.records import Healed
from outlast.store.session import Session
from outlast.store.sqlite.file_guard import FileGuard
from outlast.testing import ManualClock
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows


def _holds_a_task(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="t")
    (lease,) = app.claim("w")
    say(lease.task_id)
    hear()
    say(lease.complete())


def _heals_without_descriptors(path: str) -> None:
    import os
    import resource

    from outlast import Outlast
    from tests.support.childside import say

    app = Outlast(path).open()
    app.heal()
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        say(len(taken))
    stats = app.heal()
    for descriptor in taken:
        os.close(descriptor)
    claimed = app.claim("thief")
    say([stats.entries_reclaimed, list(stats.dead_workers), [one.task_id for one in claimed]])


def test_a_prober_without_descriptors_judges_nobody_dead(database: Path) -> None:
    with Child(_holds_a_task, database) as holder:
        assert holder.hear() == "t"
        with Child(_heals_without_descriptors, database) as prober:
            taken, judged = prober.hear_all()
        assert taken > 0
        assert judged == [0, [], []]
        assert foreign_rows(database, "SELECT name FROM workers WHERE state = 'alive'") == [["w"]]
        holder.say()
        assert holder.hear() is True


def _claims_on_a_full_disk(path: str) -> None:
    """On a small file system of its own where that is allowed; else under a limit on file sizes."""
    import ctypes
    import os
    import resource
    import signal

    from outlast import Outlast, StoreUnwritable
    from tests.support.childside import say

    own_users, own_mounts = 0x10000000, 0x00020000
    libc = ctypes.CDLL(None)
    folder = os.path.dirname(path).encode()
    flags = own_mounts if os.getuid() == 0 else own_mounts | own_users
    mounted = (
        libc.unshare(flags) == 0
        and libc.mount(b"none", b"/", None, 0x44000, None) == 0
        and libc.mount(b"tmpfs", folder, b"tmpfs", 0, b"size=4m") == 0
    )
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    app = Outlast(path)
    app.enqueue("work", id="t")
    app.flush_wal()
    filling = os.path.join(os.path.dirname(path), "filling")
    if mounted:
        with open(filling, "wb", 0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit))
    try:
        app.claim("w")
    except StoreUnwritable as error:
        say(str(error))
    if mounted:
        os.unlink(filling)
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    say(os.listdir(f"{path}-outlast/workers"))
    (lease,) = app.claim("w")
    say([lease.task_id, lease.attempt, lease.complete()])
    app.close()


def test_a_first_claim_on_a_full_disk_is_refused_and_works_once_there_is_space(
    database: Path,
) -> None:
    """A memory-mapped file without blocks of its own would end the process by SIGBUS instead."""
    with Child(_claims_on_a_full_disk, database) as child:
        refusal, left_over, then = child.hear_all()
        assert child.wait() == 0, child.error()
    assert "no lock file can be made" in refusal
    assert left_over == []
    assert then == ["t", 1, True]


def _open_descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def _fails_to_open(open_it: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        open_it()


def _broken(session: Session) -> Healed:
    raise StoreUnwritable("nothing works today")


def test_openings_that_fail_leave_no_descriptor_behind(
    database: Path, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Outlast(database, clock=clock) as app:
        app.enqueue("work", id="t")
    letter = tmp_path / "letter"
    letter.write_bytes(b"this is a letter, not a database" * 50)
    before = _open_descriptors()
    for _ in range(3):
        _fails_to_open(lambda: Outlast(letter).open(), NotAStore)
        _fails_to_open(lambda: Outlast(letter).counts(), NotAStore)
        _fails_to_open(lambda: Outlast(database, recovery=_broken).open(), RecoveryFailed)
    with monkeypatch.context() as patched:
        patched.setattr(FileGuard, "arm", _no_locks)
        for _ in range(3):
            _fails_to_open(lambda: Outlast(database).open(), StoreUnwritable)
    assert _open_descriptors() == before
    with Outlast(database, clock=clock) as app:
        assert app.get("t").status == "pending"
    assert _open_descriptors() == before
    assert_sound(database)


def _no_locks(guard: FileGuard) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_a_lock_file_that_cannot_be_made_leaves_neither_descriptor_nor_name(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue("work", id="t")
    app.counts()
    before = _open_descriptors()

    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        for _ in range(3):
            with pytest.raises(StoreUnwritable, match="No space left on device"):
                app.claim("w")
    assert _open_descriptors() == before
    assert os.listdir(f"{app.path}-outlast/workers") == []
    (lease,) = app.claim("w")
    assert lease.attempt == 1


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("outlast.store.sqlite.database.ensure_wal", apsw.IOError("disk I/O error")),
        ("outlast.store.sqlite.file_guard.FileGuard.arm", OSError(errno.EMFILE, "too many files")),
    ],
)
def test_where_connecting_anew_fails_too_the_first_error_is_told_and_the_store_can_be_opened(
    database: Path, monkeypatch: pytest.MonkeyPatch, place: str, error: Exception
) -> None:
    """Guards against bare errors of engine and system, after which it could not be used again."""

    def fails(*given: object, **named: object) -> None:
        raise error

    with Outlast(database) as app:
        app.enqueue("work", id="a")
        Path(f"{database}-wal").unlink()
        with monkeypatch.context() as patch:
            patch.setattr(place, fails)
            with pytest.raises(StoreReplaced):
                app.enqueue("work", id="b")
        app.open().enqueue("work", id="c")
        assert sorted(task.id for task in app.tasks()) == ["a", "c"]
    assert_sound(database)
