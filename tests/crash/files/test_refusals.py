"""What Outlast refuses to open, and that it leaves it exactly as it was."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

from outlast import (
    EngineTooOld,
    NetworkFilesystem,
    NotAStore,
    Outlast,
    QueueStalled,
    SchemaNewer,
    Settings,
    StoreError,
    StoreUnwritable,
)
from outlast.host import mounts, proc_files
from outlast.store.sqlite.connect import guard_version
from tests.store.hand import engine_of
from tests.support.children import Child
from tests.support.foreign import foreign_rows
from tests.support.sitting import sits_in_a_transaction


def _open(app: Outlast) -> None:
    app.open()


def _look(app: Outlast) -> None:
    app.counts()


def _enqueue(app: Outlast) -> None:
    app.enqueue("work")


any_use = pytest.mark.parametrize("use", [_open, _look, _enqueue], ids=lambda use: use.__name__)


def _listing(folder: Path) -> list[tuple[str, int, int]]:
    found = (file.lstat() for file in sorted(folder.rglob("*")))
    names = sorted(str(file) for file in folder.rglob("*"))
    return [(name, one.st_size, one.st_mtime_ns) for name, one in zip(names, found, strict=True)]


@any_use
def test_another_programs_sqlite_file_is_refused_and_left_alone(
    database: Path, use: Callable[[Outlast], None]
) -> None:
    foreign_rows(database, "CREATE TABLE theirs (x)")
    before = _listing(database.parent)
    with pytest.raises(NotAStore, match="SQLite file of another program"):
        use(Outlast(database))
    assert _listing(database.parent) == before


@any_use
def test_a_file_that_is_no_database_is_refused_and_left_alone(
    database: Path, use: Callable[[Outlast], None]
) -> None:
    database.write_text("dear diary, " * 1000)
    before = _listing(database.parent)
    with pytest.raises(NotAStore, match="is not an Outlast store"):
        use(Outlast(database))
    assert _listing(database.parent) == before


@any_use
def test_a_folder_is_refused(database: Path, use: Callable[[Outlast], None]) -> None:
    database.mkdir()
    with pytest.raises(StoreError, match=r"work\.db"):
        use(Outlast(database))
    assert list(database.parent.iterdir()) == [database]
    assert list(database.iterdir()) == []


@any_use
def test_a_store_of_a_later_outlast_is_refused(
    database: Path, use: Callable[[Outlast], None]
) -> None:
    Outlast(database).open().close()
    foreign_rows(database, "INSERT INTO migrations VALUES (99, 'from the future', 'x', 0)")
    with pytest.raises(SchemaNewer, match=r"version 99 .* upgrade Outlast"):
        use(Outlast(database))


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
@any_use
def test_a_network_file_system_is_refused(
    database: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Outlast], None]
) -> None:
    if use is _look:
        Outlast(database).open().close()
    before = _listing(database.parent)
    monkeypatch.setattr("outlast.host.mounts.filesystem_type", lambda path: "nfs4")
    with pytest.raises(NetworkFilesystem, match="lies on nfs4"):
        use(Outlast(database))
    assert _listing(database.parent) == before


@pytest.mark.proves("INT-34")
def test_a_network_file_system_can_be_allowed(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.host.mounts.filesystem_type", lambda path: "nfs4")
    with Outlast(database, settings=Settings(allow_network_filesystem=True)) as app:
        app.enqueue("work")


@pytest.mark.proves("INT-35")
@pytest.mark.parametrize("version", ["3.7.0", "3.34.1", "3.40.1", "3.50.4", "3.51.2"])
def test_an_engine_that_loses_commits_is_refused(
    database: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    with pytest.raises(EngineTooOld, match=rf"SQLite {version} .* 3\.51\.3 or newer"):
        Outlast(database).open()
    assert not database.exists()


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


def _opens_as_an_ordinary_user(path: str) -> None:
    import os

    from outlast import Outlast, StoreError
    from tests.support.childside import say

    app = Outlast(path)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        say(app.enqueue("work").id)
    except StoreError as error:
        say(f"{type(error).__name__}: {error}")


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can reach, which pytest's own are not."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def _refusal(path: Path) -> str:
    with Child(_opens_as_an_ordinary_user, path) as child:
        said: str = child.hear()
        assert child.wait() == 0
    return said


@pytest.mark.parametrize(("mode", "what"), [(0o000, "unreadable"), (0o444, "read-only")])
def test_a_store_that_this_user_cannot_write_is_refused_in_one_sentence(
    shared_folder: Path, mode: int, what: str
) -> None:
    database = shared_folder / "work.db"
    Outlast(database).open().close()
    database.chmod(mode)
    before = _listing(shared_folder)
    assert _refusal(database).startswith(f"StoreUnwritable: {database} ")
    assert _listing(shared_folder) == before


def test_a_folder_that_this_user_cannot_write_is_refused_in_one_sentence(
    shared_folder: Path,
) -> None:
    shared_folder.chmod(0o555)
    said = _refusal(shared_folder / "work.db")
    assert said.startswith("StoreUnwritable: ")
    assert str(shared_folder) in said
    assert list(shared_folder.iterdir()) == []


@pytest.mark.parametrize("name", ["openers", "gate"])
def test_a_side_file_that_is_a_link_is_refused(database: Path, name: str) -> None:
    Outlast(database).open().close()
    side = database.parent / "work.db-outlast"
    victim = database.parent / "victim"
    victim.write_text("precious")
    (side / name).unlink()
    (side / name).symlink_to(victim)
    with pytest.raises(StoreUnwritable, match="symbolic link"):
        Outlast(database).enqueue("work")
    assert victim.read_text() == "precious"
    assert os.stat(victim).st_size == 8


def _makes_a_store(path: str, umask: int) -> None:
    import os

    from outlast import Outlast
    from tests.support.childside import hear, say

    os.umask(umask)
    app = Outlast(path)
    app.enqueue("work")
    app.claim("w")
    app.enqueue("work", "x" * 5000)
    say("made")
    hear()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077], ids=oct)
def test_everything_that_is_made_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "new" / "deep"
    with Child(_makes_a_store, folder / "work.db", umask) as child:
        child.hear()
        made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
        modes = {file.name: file.stat().st_mode & 0o777 for file in made}
        files = {file.name for file in made if file.is_file()}
    assert {"work.db", "work.db-wal", "work.db-shm", "openers", "gate"} < files
    assert {name: oct(mode) for name, mode in modes.items()} == {
        name: oct(0o600 if name in files else 0o700) for name in modes
    }


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
