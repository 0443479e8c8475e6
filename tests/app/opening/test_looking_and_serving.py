import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import NotAStore, Outlast, SchemaError, StoreNotFound
from outlast.testing import ManualClock
from tests.support.children import Child
from tests.support.newer import know_next

pytestmark = pytest.mark.slow

READS: dict[str, Callable[[Outlast], Any]] = {
    "get": lambda app: app.get("t1"),
    "tasks": lambda app: app.tasks(),
    "held_by": lambda app: app.held_by("w"),
    "counts": lambda app: app.counts(),
    "group": lambda app: app.group("g"),
    "history": lambda app: app.history("t1"),
    "why": lambda app: app.why("t1"),
    "snapshot": lambda app: list(app.snapshot()),
    "backlog": lambda app: app.backlog(),
    "stats": lambda app: app.stats(),
    "workers": lambda app: app.workers(),
    "is_alive": lambda app: app.is_alive("w"),
    "stale_workers": lambda app: app.stale_workers(),
    "checkpoints": lambda app: app.checkpoints("t1"),
    "latest_checkpoint": lambda app: app.latest_checkpoint("t1"),
    "checkpoint_counts": lambda app: app.checkpoint_counts("t1"),
    "keys": lambda app: app.keys("t1"),
    "schema": lambda app: app.schema(),
}


def _works_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="t1", group="g", idempotency_key="k")
    app.enqueue("work", id="t2")
    (lease,) = app.claim("w")
    lease.checkpoint("iteration_end", {"n": 1})
    say("working")
    hear()


@pytest.fixture
def crashed(database: Path) -> Path:
    """A store whose worker was killed: an orphan in it, its last commits still in the WAL."""
    with Child(_works_and_waits, database) as child:
        assert child.hear() == "working"
    return database


def _fingerprint(database: Path) -> dict[str, str]:
    """Every file of the store by content; nobody has it open, so it may be read by hand."""
    files = [database, Path(f"{database}-wal"), *Path(f"{database}-outlast").rglob("*")]
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()
    }


def test_making_the_object_touches_nothing_and_fixes_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = Outlast("work.db")
    assert os.listdir(tmp_path) == []
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with app:
        app.enqueue("work")
    assert app.path == tmp_path / "work.db"
    assert app.path.exists()
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("read", READS)
def test_a_read_never_creates_a_store(app: Outlast, tmp_path: Path, read: str) -> None:
    with pytest.raises(StoreNotFound, match="there is no store at"):
        READS[read](app)
    assert os.listdir(tmp_path) == []


def test_reads_change_nothing_not_even_when_recovery_is_due(crashed: Path) -> None:
    """Looking must not migrate, recover, heal, flush or register."""
    before = _fingerprint(crashed)
    assert Path(f"{crashed}-wal").stat().st_size > 0
    app = Outlast(crashed)
    answers = {name: read(app) for name, read in READS.items()}
    app.close()
    assert _fingerprint(crashed) == before
    assert answers["get"].status == "running"
    assert answers["counts"]["running"] == 1
    assert [task.id for task in answers["held_by"]] == ["t1"]
    assert "recovery is due" in answers["why"]
    assert [task.id for task in answers["snapshot"]] == ["t2", "t1"]
    assert (answers["backlog"].unfinished, answers["stats"].leases.active) == (2, 1)
    assert [one.state for one in answers["workers"]] == ["dead"]
    assert answers["is_alive"] is False
    assert answers["latest_checkpoint"].data == {"n": 1}
    assert [key.key for key in answers["keys"]] == ["k"]


def test_looking_says_that_recovery_is_due(crashed: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = Outlast(crashed)
    with caplog.at_level(logging.WARNING, "outlast"):
        app.counts()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "recovery is due" in caplog.text
    app.close()


WRITES: dict[str, Callable[[Outlast], Any]] = {
    "open": lambda app: app.open(),
    "enqueue": lambda app: app.enqueue("other"),
    "enqueue_many": lambda app: app.enqueue_many("other", [1]),
    "claim": lambda app: app.claim("w2", kinds=["none of these"]),
    "take": lambda app: app.take(kinds=["none of these"]),
    "cancel": lambda app: app.cancel("t2"),
    "park": lambda app: app.park("t2"),
    "pause": lambda app: app.pause("default"),
    "resolve": lambda app: app.resolve("t2"),
    "flush_wal": lambda app: app.flush_wal(),
    "heartbeat": lambda app: app.heartbeat("w2"),
    "mark_dead": lambda app: app.mark_dead("nobody"),
}


@pytest.mark.parametrize("write", WRITES)
def test_everything_else_opens_to_serve_which_recovers_first(crashed: Path, write: str) -> None:
    app = Outlast(crashed)
    WRITES[write](app)
    task = app.get("t1")
    assert (task.status, task.recovery_count) == ("pending", 1)
    assert app.history("t1")[-1].actor == "system/recovery"
    app.close()


def test_a_store_opened_to_look_can_be_opened_to_serve(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t1")
    app.close()
    assert app.get("t1").status == "pending"
    (lease,) = app.claim("w")
    assert app.get("t1").status == "running"
    assert lease.complete()


def test_those_who_look_go_on_when_another_object_serves_and_leaves(
    make_app: Callable[..., Outlast],
) -> None:
    serving, looking, other = make_app(), make_app(), make_app()
    serving.enqueue("work", id="t1")
    serving.close()
    assert looking.get("t1") == other.get("t1")
    serving.enqueue("work", id="t2")
    assert looking.get("t2") == other.get("t2")
    serving.close()
    assert looking.get("t2") == other.get("t2")
    looking.close()
    assert other.counts()["pending"] == 2


def test_a_failed_opening_raises_and_the_next_call_tries_again(
    app: Outlast, database: Path
) -> None:
    database.write_bytes(b"this is a letter, not a database" * 50)
    for _ in range(2):
        with pytest.raises(NotAStore):
            app.enqueue("work")
        with pytest.raises(NotAStore):
            app.counts()
    database.unlink()
    app.enqueue("work", id="t1")
    assert app.get("t1").status == "pending"


def test_reads_refuse_a_store_that_must_be_migrated_first_and_say_so(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue("work")
    app.close()
    know_next(monkeypatch)
    with pytest.raises(SchemaError, match=r"lacks migration \d+ .*open it to serve"):
        app.counts()
