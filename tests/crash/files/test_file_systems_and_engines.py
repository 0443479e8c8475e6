"""File systems and engines that Outlast knows, and what it cannot do without."""

import errno
from pathlib import Path

import pytest

from outlast import EngineTooOld, Outlast, QueueStalled, Settings, StoreError
from outlast.host import mounts, proc_files
from outlast.store.sqlite.connect import guard_version
from tests.store.hand import engine_of
from tests.support.children import Child
from tests.support.sitting import sits_in_a_transaction


@pytest.mark.parametrize(("path", "kind"), [("/proc", "proc"), ("/proc/self", "proc")])
def test_the_kernel_is_asked_for_the_file_system_of_a_path(path: str, kind: str) -> None:
    assert mounts.filesystem_type(Path(path)) == kind


def test_a_name_that_begins_like_a_mount_point_is_not_inside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no device number matches, as with subvolumes, the longest mount point decides."""
    (tmp_path / "disk2").mkdir()
    (tmp_path / "disk" / "inner").mkdir(parents=True)
    lines = [f"1 1 0:0 / / rw - ext4 x rw\n2 1 0:0 / {tmp_path}/disk rw - nfs4 x rw\n"]
    monkeypatch.setattr(proc_files, "read_text", lambda path: "".join(lines))
    assert mounts.filesystem_type(tmp_path / "disk2") == "ext4"
    assert mounts.filesystem_type(tmp_path / "disk") == "nfs4"
    assert mounts.filesystem_type(tmp_path / "disk" / "inner") == "nfs4"


@pytest.mark.proves("INT-34")
def test_a_network_file_system_can_be_allowed(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.host.mounts.filesystem_type", lambda path: "nfs4")
    with Outlast(database, settings=Settings(allow_network_filesystem=True)) as app:
        app.enqueue("work")


@pytest.mark.proves("INT-35")
@pytest.mark.parametrize("version", ["3.7.0", "3.34.1", "3.40.1", "3.50.4", "3.51.2"])
def test_an_engine_that_loses_commits_is_refused(version: str) -> None:
    with pytest.raises(EngineTooOld, match=rf"SQLite {version} .* 3\.51\.3 or newer"):
        guard_version(version)


@pytest.mark.proves("INT-35")
@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "3.100.0", "4.0.0"])
def test_an_engine_without_the_defect_is_accepted(version: str) -> None:
    guard_version(version)


@pytest.mark.proves("INT-35")
def test_a_flush_waits_for_writers_of_other_processes(database: Path) -> None:
    """Commits and flushes pass one gate, across connections and processes."""
    settings = Settings(stall_seconds=0.1, write_timeout_seconds=0.2)
    with Outlast(database, settings=settings) as app:
        app.enqueue("work")
        with Child(sits_in_a_transaction, database) as writer:
            writer.hear()
            with pytest.raises(QueueStalled) as caught:
                app.flush_wal("passive")
            assert caught.value.pid == writer.pid
        assert app.flush_wal("truncate").frames_moved > 0


def test_a_process_that_cannot_see_its_open_files_is_refused_in_words(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For want of memory, say: whether it has its locks is not known then, so nothing is stored."""

    def fails(device: int, inode: int) -> int:
        raise OSError(errno.ENOMEM, "Cannot allocate memory", "/proc/self/fd")

    with Outlast(database) as app, monkeypatch.context() as starved:
        starved.setattr("outlast.host.file_locks.descriptor_of", fails)
        guard = engine_of(app.open())._database.guard
        guard._descriptors.clear()
        guard._questions = None
        with pytest.raises(StoreError, match="cannot see its own open files"):
            app.enqueue("work", id="t")
    with Outlast(database) as app:
        assert app.counts()["pending"] == 0
        app.enqueue("work", id="t")
