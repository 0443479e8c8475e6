import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import (
    DatabaseError,
    Instant,
    InvalidInput,
    Outlast,
    RecoveryFailed,
    Settings,
    usual_recovery,
)
from outlast.store.records import Healed
from outlast.store.session import Session
from outlast.testing import ManualClock

NOTHING_HEALED = Healed(0, 0, ())


class FixedClock:
    """A clock of somebody else's: nothing but `now`."""

    def now(self) -> Instant:
        return Instant(1_700_000_000_000, 5)


class Ear(logging.Handler):
    """Keeps what a logger was told."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(f"{record.levelname} {record.getMessage()}")


@pytest.mark.proves("API-08")
def test_any_object_with_now_is_a_clock(database: Path) -> None:
    with Outlast(database, clock=FixedClock()) as app:
        task = app.enqueue("work")
        assert task.created_at.timestamp() == 1_700_000_000
        app.claim("w")
        assert app.get(task.id).started_at == task.created_at


@pytest.mark.proves("API-08")
def test_the_logger_given_hears_what_the_engine_has_to_say(
    database: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    ear, logger = Ear(), logging.getLogger(f"mine.{database}")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(ear)
    app = Outlast(database, clock=clock, logger=logger, settings=Settings(heal_at_claim=False))
    app.enqueue("work", {"password": "s3cr3t"}, id="t1")
    app.claim("w", lease="1s")
    clock.advance("1s")
    second = Outlast(database, clock=clock, logger=logger).open()
    app.claim("w")
    second.close()
    app.close()
    assert ear.heard[0].startswith("DEBUG recovery run 1 begins (opening)")
    assert [one for one in ear.heard if not one.startswith("DEBUG ")][:2] == [
        "INFO recovered 0 tasks, failed 0, of 0 dead workers, in 0.000 s",
        "WARNING recovered 1 tasks, failed 0, of 0 dead workers, in 0.000 s",
    ]
    assert "s3cr3t" not in "".join(ear.heard)
    assert "outlast" not in {record.name for record in caplog.records}


@pytest.mark.proves("API-08")
def test_the_recovery_given_runs_once_at_each_opening_before_anything_is_served(
    make_app: Callable[..., Outlast], database: Path, clock: ManualClock
) -> None:
    make_app().enqueue("work", id="t1")
    seen: list[int] = []

    def counting(session: Session) -> Healed:
        seen.append(session.store.figures.counts(None)["pending"])
        return NOTHING_HEALED

    app = Outlast(database, clock=clock, recovery=counting)
    assert app.counts()["pending"] == 1
    assert seen == []
    app.enqueue("work", id="t2")
    app.claim("w")
    assert seen == [1]
    app.close()
    app.open()
    assert seen == [1, 2]
    app.close()


@pytest.mark.proves("API-08")
def test_nothing_is_served_while_recovery_fails_and_the_next_call_tries_again(
    database: Path, clock: ManualClock
) -> None:
    tries: list[BaseException | None] = [
        DatabaseError("heal", OSError("disk")),
        KeyboardInterrupt(),
        None,
    ]

    def flaky(session: Session) -> None:
        error = tries.pop(0)
        if error is not None:
            raise error
        usual_recovery(session)

    app = Outlast(database, clock=clock, recovery=flaky)
    with pytest.raises(RecoveryFailed, match=r"heal failed: OSError: disk; nothing was handed out"):
        app.enqueue("work")
    with pytest.raises(KeyboardInterrupt):
        app.enqueue("work")
    app.enqueue("work")
    assert tries == []
    assert app.counts()["pending"] == 1
    app.close()


@pytest.mark.parametrize("target", ["", ":memory:", "postgres://host/db", "a\0b", b"bytes.db"])
def test_what_cannot_be_a_store_is_refused_when_the_object_is_made(target: str) -> None:
    with pytest.raises(ValueError, match="path"):
        Outlast(target)


def test_a_store_is_named_by_a_path_or_a_url(tmp_path: Path) -> None:
    expected = tmp_path / "a b.db"
    for target in (expected, str(expected), f"sqlite:///{tmp_path}/a%20b.db"):
        assert Outlast(target).path == expected
    assert Outlast("~/work.db").path == Path.home() / "work.db"
    assert Outlast("sqlite:///rel/work.db").path == Path.cwd() / "rel" / "work.db"


@pytest.mark.parametrize(
    "name", ["work.db-wal", "work.db-shm", "work.db-journal", "work.db-outlast/openers"]
)
def test_a_file_beside_a_store_is_no_store(tmp_path: Path, name: str) -> None:
    """An empty log lies beside a store that was closed: what is put there would be lost."""
    with Outlast(tmp_path / "work.db") as app:
        app.enqueue("work")
    with pytest.raises(InvalidInput, match="name that itself"):
        Outlast(tmp_path / name)
    elsewhere = tmp_path / "my-outlast" / "my-journal"
    assert Outlast(elsewhere).path == elsewhere
