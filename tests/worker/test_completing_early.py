"""A handler that completes its task itself, together with statements on the user's own tables."""

import asyncio
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

from outlast import Outlast, QueueFull, probes
from outlast.domain.lifecycle import Outcome
from outlast.tasks import settle
from outlast.tasks.execute import Ended
from outlast.worker.dispatcher import LAST_WORDS_SECONDS, Dispatcher
from outlast.worker.job import Job
from outlast.worker.jobs import proof_of
from outlast.worker.messages import News
from tests.store.hand import Hand
from tests.support.foreign import foreign_rows
from tests.worker.isolation import isolated_jobs

ENTRY = "INSERT INTO paid VALUES (?)"


def test_own_statements_commit_with_the_completion_or_not_at_all(tmp_path: Path) -> None:
    """Guards exactly-once effects in the store's own file, whatever the handler does next."""
    path = tmp_path / "work.db"
    with Outlast(path) as app:
        with closing(Hand(path)) as hand:
            hand.run("CREATE TABLE paid (invoice TEXT)")

        @app.task(max_retries=0)
        def pay(ctx: Any, invoice: str) -> str:
            ctx.complete(f"paid {invoice}", also=[(ENTRY, (invoice,))])
            raise RuntimeError("too late to matter")

        @app.task(max_retries=0)
        async def pay_soon(ctx: Any, invoice: str) -> str:
            await ctx.acomplete("paid", also=[(ENTRY, (invoice,))])
            return "not this"

        @app.task(max_retries=0)
        def misspell(ctx: Any) -> None:
            ctx.complete("paid", also=[("INSERT INTO nowhere VALUES (1)", ())])

        app.functions.register(isolated_jobs.pay_apart)
        tasks = [
            pay.enqueue("a"),
            pay_soon.enqueue("b"),
            misspell.enqueue(),
            app.enqueue("pay_apart", {"invoice": "c"}),
        ]
        tally = app.worker().run(until_empty=True)
        assert (tally.completed, tally.failed, tally.lost) == (3, 1, 0)
        found = [app.get(task.id) for task in tasks]
        assert [task.status for task in found] == ["completed", "completed", "failed", "completed"]
        assert [task.result for task in found] == ["paid a", "paid", None, "paid apart"]
    assert foreign_rows(path, "SELECT invoice FROM paid ORDER BY 1") == [["a"], ["b"], ["c"]]


def taken_up(app: Outlast) -> tuple[Dispatcher, Job]:
    """A dispatcher one of whose threads is at a task."""

    @app.task(timeout=60)
    def work() -> None: ...

    work.enqueue()
    (lease,) = app.prefetch("w")
    session = app._handle.serve()
    dispatcher = app.worker(name="w")._dispatcher_for(session, ("work",), until_empty=False)
    dispatcher._principal = session.store.workers.principal("w", session.now())
    dispatcher._executors.give = lambda jobs: None  # type: ignore[method-assign]
    dispatcher._hand_on([lease.claimed], session.now().mono_ms)
    (job,) = dispatcher._jobs.queued.values()
    assert dispatcher._jobs.begin(job)
    return dispatcher, job


@pytest.mark.parametrize("is_reported", [False, True])
def test_what_was_completed_early_is_no_loss_whoever_tells_of_it_first(
    app: Outlast, is_reported: bool
) -> None:
    """Guards the count when the leases are looked at just after the handler has ended."""
    dispatcher, job = taken_up(app)
    assert job.ctx.complete("done")
    dispatcher._jobs.end(job, Ended(error="late"))
    lost = News(lost=[(job.grant.seq, job.grant.token)])
    if not is_reported:
        dispatcher._take_in(lost)
    dispatcher._writer.report(0.0)
    dispatcher._take_in(lost if is_reported else News(settled=lost.lost))
    assert (dispatcher.tally.completed, dispatcher.tally.failed, dispatcher.tally.lost) == (1, 0, 0)
    assert dispatcher._jobs.is_empty
    dispatcher._close()


@pytest.mark.parametrize("was_stored", [True, False])
def test_who_is_about_to_complete_is_not_called_off_for_it(app: Outlast, was_stored: bool) -> None:
    """Guards a handler whose completion is stored from being stopped before it hears of that; the
    store process tells of a loss only once."""
    dispatcher, job = taken_up(app)
    with job.ctx._completing():
        dispatcher._take_in(News(lost=[proof_of(job.grant)]))
        dispatcher._watch_clocks()
        assert not job.ctx.cancelled
        assert job.grant in dispatcher._jobs.open
        job.ctx.has_completed = was_stored
    dispatcher._watch_clocks()
    assert job.ctx.cancelled is not was_stored
    assert (dispatcher.tally.completed, dispatcher.tally.lost) == (was_stored, not was_stored)
    dispatcher._close()


def test_a_loss_heard_while_completing_fails_is_told_afterwards(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards a handler that survives a failed completion from working on for nobody."""
    dispatcher, job = taken_up(app)

    def refuses(*_: object) -> NoReturn:
        dispatcher._take_in(News(lost=[proof_of(job.grant)]))
        raise QueueFull("it could not be stored in time")

    monkeypatch.setattr(settle, "complete", refuses)
    with pytest.raises(QueueFull):
        job.ctx.complete("done")
    assert not job.ctx.cancelled
    dispatcher._watch_clocks()
    assert (job.ctx.cancelled, job.ctx.reason) == (True, "its lease was lost")
    assert (dispatcher.tally.completed, dispatcher.tally.lost) == (0, 1)
    dispatcher._close()


@pytest.mark.parametrize("was_stored", [True, False])
def test_the_time_of_who_is_about_to_complete_is_up_afterwards(
    app: Outlast, was_stored: bool
) -> None:
    """Guards the count when a time limit falls between a completion and the handler's hearing of
    it, and the dispatcher from looking without a pause meanwhile."""
    dispatcher, job = taken_up(app)
    job.times_out_at = time.monotonic()
    with job.ctx._completing():
        dispatcher._watch_clocks()
        assert not job.ctx.cancelled
        assert dispatcher._jobs.next_timeout() == float("inf")
        job.ctx.has_completed = was_stored
    assert dispatcher._jobs.next_timeout() == job.times_out_at
    dispatcher._watch_clocks()
    assert (job.ctx.cancelled, job.ctx.reason) == (True, "its time is up")
    dispatcher._writer.report(0.0)
    dispatcher._take_in(News(settled=[proof_of(job.grant)]))
    assert (dispatcher.tally.completed, dispatcher.tally.failed) == (was_stored, not was_stored)
    dispatcher._close()


@pytest.mark.parametrize("was_stored", [True, False])
def test_a_lease_that_runs_out_while_its_handler_completes_is_lost_afterwards(
    app: Outlast, was_stored: bool
) -> None:
    """Guards a handler whose completion is stored from being stopped by a late renewal."""
    dispatcher, job = taken_up(app)
    job.lease_ends_mono_ms = 0
    with job.ctx._completing():
        dispatcher._watch_leases()
        assert not job.ctx.cancelled
        assert not dispatcher._writer.dropped
        job.ctx.has_completed = was_stored
    dispatcher._watch_leases()
    assert dispatcher._writer.dropped == [proof_of(job.grant)]
    assert job.ctx.cancelled is not was_stored
    assert (dispatcher.tally.completed, dispatcher.tally.lost) == (was_stored, not was_stored)
    dispatcher._close()


@pytest.mark.parametrize("has_waited", [False, True])
def test_who_is_about_to_complete_is_not_put_back_before_the_last_moment(
    app: Outlast, has_waited: bool
) -> None:
    """Guards the count when a worker stops while a completion is being stored, and the task from
    being left behind if that never comes to an end."""
    dispatcher, job = taken_up(app)
    dispatcher.stop(-1.0 - LAST_WORDS_SECONDS if has_waited else 0.0)
    with job.ctx._completing():
        dispatcher._stop_working()
        assert job.ctx.cancelled is has_waited
        assert (job.grant in dispatcher._jobs.open) is not has_waited
    dispatcher._stop_working()
    assert job.ctx.cancelled
    assert [entry[:3] for entry in dispatcher._jobs.left_over()] == [
        (*job.grant[::2], Outcome.RELEASE)
    ]
    dispatcher._close()


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_completion_whose_waiter_is_called_off_too_late_counts(
    app: Outlast, is_lost: bool
) -> None:
    """Guards the count when a coroutine is cancelled between the write and its hearing of it; a
    completion that found its lease lost is none, though its transaction is committed too."""
    dispatcher, job = taken_up(app)
    if is_lost:
        app.cancel(job.claimed.task_id)

    async def cancelled_too_late() -> None:
        loop = asyncio.get_running_loop()
        completing = asyncio.create_task(job.ctx.acomplete("done"))

        def cancel(name: str) -> None:
            if name == "settle.written":
                loop.call_soon_threadsafe(completing.cancel)

        probes.arm(cancel)
        with pytest.raises(asyncio.CancelledError):
            await completing

    try:
        asyncio.run(cancelled_too_late())
    finally:
        probes.arm(None)
    assert app.get(job.claimed.task_id).status == ("cancelled" if is_lost else "completed")
    assert job.ctx.has_completed is not is_lost
    assert not job.ctx.is_completing
    dispatcher._close()
