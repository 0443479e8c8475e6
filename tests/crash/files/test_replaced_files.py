"""A file unlinked or replaced under an open store: refused before any acknowledgement."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import OutcomeUnknown, Outlast, StoreReplaced, probes
from tests.support.foreign import foreign_statuses

PATIENCE_SECONDS = 30
AT_REST_NS = 100_000_000


def _unlink_log(database: Path) -> None:
    Path(f"{database}-wal").unlink()


def _replace_log(database: Path) -> None:
    _renamed_over(Path(f"{database}-wal"))


def _replace_database(database: Path) -> None:
    _renamed_over(database)


def _unlink_database(database: Path) -> None:
    database.unlink()


def _renamed_over(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"")
    os.rename(other, path)


def _unlink_openers_lock(database: Path) -> None:
    (database.parent / f"{database.name}-outlast" / "openers").unlink()


TRICKS = [
    _unlink_log,
    _replace_log,
    _replace_database,
    _unlink_database,
    _unlink_openers_lock,
]
tricks = pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__.strip("_"))


@pytest.fixture
def used(app: Outlast) -> Iterator[Outlast]:
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    yield app
    probes.arm(None)


@tricks
def test_nothing_is_stored_or_handed_out_once_a_file_was_replaced(
    used: Outlast, trick: Callable[[Path], None]
) -> None:
    (lease,) = used.claim("w")
    trick(used.path)
    with pytest.raises(StoreReplaced, match="was replaced or removed while it was open"):
        lease.complete()


@tricks
def test_an_enqueue_is_refused_once_a_file_was_replaced(
    used: Outlast, trick: Callable[[Path], None]
) -> None:
    trick(used.path)
    with pytest.raises(StoreReplaced):
        used.enqueue("work", id="lost")


@tricks
def test_a_claim_is_refused_once_a_file_was_replaced(
    used: Outlast, trick: Callable[[Path], None]
) -> None:
    trick(used.path)
    with pytest.raises(StoreReplaced):
        used.claim("w")


@tricks
@pytest.mark.parametrize("point", ["enqueue.begun", "enqueue.written", "enqueue.committed"])
def test_a_file_replaced_during_a_transaction_is_noticed_before_the_acknowledgement(
    used: Outlast, trick: Callable[[Path], None], point: str
) -> None:
    probes.arm(lambda name: trick(used.path) if name == point else None)
    with pytest.raises(OutcomeUnknown, match="resolve") as caught:
        used.enqueue("work", id="doubtful")
    assert caught.value.task_ids == ("doubtful",)
    probes.arm(None)
    used.open()
    resolved = used.resolve("doubtful")
    assert (resolved is not None) is ("doubtful" in foreign_statuses(used.path))


@tricks
@pytest.mark.parametrize("point", ["enqueue.begun", "enqueue.committed"])
def test_it_is_noticed_as_well_when_the_folders_have_been_at_rest(
    used: Outlast,
    trick: Callable[[Path], None],
    point: str,
) -> None:
    """Folders that were quiet for a while are known by their times, and no file is looked at."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _has_been_at_rest(used.path):
        used.enqueue("work")
        assert time.monotonic() < deadline
    used.enqueue("work")
    probes.arm(lambda name: trick(used.path) if name == point else None)
    with pytest.raises(OutcomeUnknown, match="resolve"):
        used.enqueue("work", id="doubtful")


def _has_been_at_rest(database: Path) -> bool:
    folders = (database.parent, database.with_name(f"{database.name}-outlast"))
    changed_ns = max(folder.stat().st_ctime_ns for folder in folders)
    return time.time_ns() - changed_ns > AT_REST_NS


@tricks
def test_a_store_whose_file_was_replaced_can_be_opened_anew(
    used: Outlast, trick: Callable[[Path], None]
) -> None:
    trick(used.path)
    with pytest.raises(StoreReplaced):
        used.enqueue("work", id="lost")
    used.open()
    assert used.enqueue("work", id="found").id == "found"
    assert used.get("found").status == "pending"
    assert "lost" not in foreign_statuses(used.path)


@pytest.mark.parametrize("trick", [_replace_database, _unlink_database])
def test_a_store_that_is_gone_stays_refused_until_somebody_opens_what_is_there(
    used: Outlast, trick: Callable[[Path], None]
) -> None:
    """A new, empty store in the old one's place must be somebody's decision."""
    trick(used.path)
    for _ in range(2):
        with pytest.raises(StoreReplaced):
            used.enqueue("work")
        with pytest.raises(StoreReplaced):
            used.get("a")
    used.close()
    assert used.enqueue("work", id="anew").id == "anew"
