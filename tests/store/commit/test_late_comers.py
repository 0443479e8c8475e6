"""What comes too late, or from the wrong place, is answered and leaves nothing behind."""

import asyncio
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import AsyncOutlast, Outlast, OutlastError, QueueStalled, StoreError, probes
from outlast.settings import Settings
from outlast.store.sqlite.presence.own import OwnPresence
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.write_gate import WriteGate
from tests.store.hand import engine_of, store_of

PATIENCE_SECONDS = 60


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    probes.arm(None)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.001)


def test_one_who_waited_in_vain_waits_anew_for_the_next_holder(database: Path) -> None:
    """Guards against a wait that is over and is held against whoever comes next."""
    database.touch()
    folder = SideFolder(database)
    folder.make()
    gate = WriteGate(folder, (0.1, 0.3))
    other = os.open(folder.gate, os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(QueueStalled):
        gate.enter(time.monotonic())
    timer = threading.Timer(0.02, lambda: fcntl.flock(other, fcntl.LOCK_UN))
    timer.start()
    gate.enter(time.monotonic())
    gate.leave()
    timer.join()
    os.close(other)
    gate.close()


def test_a_claim_that_returns_late_does_not_end_the_incarnation_that_came_meanwhile(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue_many("work", range(4))
    app.claim("w")
    store = store_of(app)
    holding = engine_of(app)._own
    old, real = holding.own(), OwnPresence.remember

    def overtaken(self: OwnPresence, worker: str, row: int, of: object) -> None:
        monkeypatch.setattr(OwnPresence, "remember", real)
        ending = {"incarnation": old.id, "state": "dead", "now": 0}
        store.tasks._access.write("heal", lambda tx: tx.run("end_worker", ending))
        assert len(app.claim("w")) == 1
        real(self, worker, row, of)

    monkeypatch.setattr(OwnPresence, "remember", overtaken)
    app.claim("w")
    young = holding.own()
    assert young is not old
    assert len(app.claim("w")) == 1
    assert holding.own() is young


def test_a_settle_cancelled_too_late_is_forgotten_like_any_other(database: Path) -> None:
    async def main() -> tuple[int, dict[str, int]]:
        async with AsyncOutlast(database) as app:
            await app.enqueue("work")
            (lease,) = await app.claim("w")
            begun, go_on = threading.Event(), threading.Event()

            def hold(name: str) -> None:
                if name == "settle.begun":
                    begun.set()
                    go_on.wait(PATIENCE_SECONDS)

            probes.arm(hold)
            completing = asyncio.create_task(lease.complete())
            await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
            completing.cancel()
            await asyncio.sleep(0)
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await completing
            return len(lease.lease.session.held), await app.counts()

    held, counts = asyncio.run(main())
    assert counts["completed"] == 1
    assert held == 0


def test_a_lone_operation_of_a_coroutine_is_answered_though_the_queue_is_full(
    database: Path,
) -> None:
    settings = Settings(max_waiting_writes=1, write_timeout_seconds=0.3)
    app = Outlast(database, settings=settings).open()
    begun, go_on = threading.Event(), threading.Event()

    def hold(name: str) -> None:
        if name == "enqueue.begun":
            begun.set()
            go_on.wait(PATIENCE_SECONDS)

    async def main() -> None:
        async with AsyncOutlast(database, settings=settings) as other:
            probes.arm(hold)
            threads = [threading.Thread(target=app.enqueue, args=("first",))]
            threads[0].start()
            begun.wait(PATIENCE_SECONDS)
            threads.append(threading.Thread(target=app.flush_wal, args=("passive",)))
            threads[1].start()
            await asyncio.to_thread(
                wait_until, lambda: len(store_of(app).tasks._access.queue.alone) == 1
            )
            asking = other.enqueue("work", also=[("DELETE FROM mine", ())])
            async with asyncio.timeout(PATIENCE_SECONDS):
                with pytest.raises(OutlastError, match="waiting to be stored"):
                    await asking
            go_on.set()
            for thread in threads:
                await asyncio.to_thread(thread.join, PATIENCE_SECONDS)

    asyncio.run(main())
    app.close()


def test_closing_from_inside_an_operation_is_refused_and_closes_nothing(app: Outlast) -> None:
    """As a finalizer would that runs in the middle of a commit."""
    app.open()
    refused: list[str] = []

    def close(name: str) -> None:
        probes.arm(None)
        with pytest.raises(StoreError, match="from inside one of its own operations") as caught:
            app.close()
        refused.append(str(caught.value))

    probes.arm(close)
    assert app.enqueue("work", id="t").id == "t"
    assert len(refused) == 1
    assert app.get("t").status == "pending"
