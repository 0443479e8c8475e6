"""The length of the log is read from the engine's own index, and is what the engine says it is."""

import ctypes
import gc
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from outlast import Outlast
from outlast.host import kernel
from outlast.store.sqlite import log_length, words
from tests.store.hand import Hand, store_of


def frames(hand: Hand) -> int:
    """By a connection of its own, which the engine tells how many frames there are."""
    hand.rows("SELECT count(*) FROM tasks")
    in_log, _ = hand.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    return in_log


def test_it_is_what_the_engine_counts(app: Outlast, hand: Hand) -> None:
    app.open()
    writer = store_of(app)._database.writer
    seen = set()
    for n in range(20):
        app.enqueue_many("work", range(n))
        assert writer.wal_pages == frames(hand)
        seen.add(writer.wal_pages)
    assert len(seen) > 15


def test_it_counts_what_others_commit_and_begins_anew_with_the_log(
    app: Outlast, hand: Hand
) -> None:
    """Guards against a process that flushes by its own commits alone."""
    app.enqueue_many("work", range(100))
    writer = store_of(app)._database.writer
    before = writer.wal_pages
    hand.run("CREATE TABLE notes AS SELECT id FROM tasks")
    assert writer.wal_pages == frames(hand) > before
    app.flush_wal("restart")
    app.enqueue("work")
    assert 0 < writer.wal_pages == frames(hand) < before


def test_letting_it_go_drops_no_lock(app: Outlast, database: Path) -> None:
    """Closing any descriptor of the index would; the standard library's mapping has one."""
    app.enqueue("work")
    guard = store_of(app)._database.guard
    descriptor = guard.index_descriptor()
    assert descriptor is not None
    connection = store_of(app)._database.writer._connection
    connection.execute("BEGIN IMMEDIATE")
    mapped = words.mapped_index(descriptor, 5)
    assert mapped is not None
    assert mapped[4] == store_of(app)._database.writer.wal_pages
    del mapped
    gc.collect()
    assert guard.locks_stand()
    connection.execute("ROLLBACK")


@pytest.mark.parametrize("obstacle", ["nothing can be mapped", "another version"])
def test_where_it_cannot_be_read_the_engine_tells_it(
    database: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    other = None if obstacle == "nothing can be mapped" else [3_008_000, 0, 0, 0, 7]
    monkeypatch.setattr(log_length, "mapped_index", lambda descriptor, count: other)
    with Outlast(database) as app, closing(Hand(database)) as hand:
        for n in range(20):
            app.enqueue_many("work", range(n))
            assert store_of(app)._database.writer.wal_pages == frames(hand)


class Library:
    """A C library whose mappings fail."""

    def __init__(self) -> None:
        self.mmap = self._Fails()
        self.munmap = self._Fails()

    class _Fails:
        restype: object = None
        argtypes: object = None

        def __call__(self, *arguments: object) -> int | None:
            return ctypes.c_void_p(-1).value


@pytest.mark.parametrize("library", [None, Library()], ids=["none", "out of memory"])
def test_what_cannot_be_mapped_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: object
) -> None:
    (tmp_path / "index").write_bytes(bytes(100))
    with (tmp_path / "index").open("rb") as file:
        assert words.mapped_index(file.fileno(), 5) is not None
        monkeypatch.setattr(kernel, "c_library", lambda: library)
        assert words.mapped_index(file.fileno(), 5) is None


def test_a_file_that_is_too_short_is_not_mapped(tmp_path: Path) -> None:
    """Reading beyond its end would end the process."""
    (tmp_path / "index").write_bytes(bytes(19))
    with (tmp_path / "index").open("rb") as file:
        assert words.mapped_index(file.fileno(), 5) is None


def test_a_mapping_goes_with_its_words(tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(bytes(4096))

    def mappings() -> int:
        return Path("/proc/self/maps").read_text(encoding="utf-8").count(str(tmp_path / "index"))

    with (tmp_path / "index").open("rb") as file:
        mapped = words.mapped_index(file.fileno(), 5)
        assert mappings() == 1
    del mapped
    gc.collect()
    assert mappings() == 0


def test_a_closed_store_looks_at_no_index(app: Outlast, database: Path) -> None:
    """Guards against the end of a process that looks late at a file somebody has cut short."""
    app.enqueue("work")
    writer = store_of(app)._database.writer
    app.close()
    Path(f"{database}-shm").write_bytes(b"")
    assert writer.wal_pages == 0
