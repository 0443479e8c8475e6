"""A handler that completes its task itself, together with statements on the user's own tables."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.engine.desk import Desk
from outlast.engine.job import Job
from outlast.engine.letters import News
from outlast.engine.run import Ended
from tests.engine import isolated_jobs
from tests.store.hand import Hand
from tests.support.foreign import foreign_rows

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


def taken_up(app: Outlast) -> tuple[Desk, Job]:
    """A desk whose hand is at a task."""

    @app.task
    def work() -> None: ...

    work.enqueue()
    (lease,) = app.prefetch("w")
    session = app._handle.serve()
    desk = app.worker(name="w")._desk_for(session, ("work",), until_empty=False)
    desk._principal = session.store.principal("w", session.now())
    desk._crew.give = lambda jobs: None  # type: ignore[method-assign]
    desk._hand_on([lease.claimed], session.now().mono_ms)
    (job,) = desk._tasks.queued.values()
    assert desk._tasks.begin(job)
    return desk, job


@pytest.mark.parametrize("is_reported", [False, True])
def test_what_was_completed_early_is_no_loss_whoever_tells_of_it_first(
    app: Outlast, is_reported: bool
) -> None:
    """Guards the count when the clerk looks at the leases just after the handler has ended."""
    desk, job = taken_up(app)
    assert job.ctx.complete("done")
    desk._tasks.lay(job, Ended(error="late"))
    lost = News(lost=[(job.grant.seq, job.grant.token)])
    if not is_reported:
        desk._take_in(lost)
    desk._writer.report(0.0)
    desk._take_in(lost if is_reported else News(settled=lost.lost))
    assert (desk.tally.completed, desk.tally.failed, desk.tally.lost) == (1, 0, 0)
    assert desk._tasks.is_empty
    desk._close()


@pytest.mark.parametrize("was_stored", [True, False])
def test_who_is_about_to_complete_is_not_called_off_for_it(app: Outlast, was_stored: bool) -> None:
    """Guards a handler whose completion is stored from being stopped before it hears of that."""
    desk, job = taken_up(app)
    lost = News(lost=[(job.grant.seq, job.grant.token)])
    with job.ctx._completing():
        desk._take_in(lost)
        assert not job.ctx.cancelled
        assert job.grant in desk._tasks.open
    job.ctx.has_completed = was_stored
    desk._take_in(lost)
    assert job.ctx.cancelled is not was_stored
    assert (desk.tally.completed, desk.tally.lost) == (was_stored, not was_stored)
    desk._close()
