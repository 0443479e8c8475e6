"""What a handler can do with its context."""

import threading
import time
from typing import Any

import pytest

from outlast import Outlast, TaskCancelled
from outlast.tasks.context import Context
from tests.support.children import Child
from tests.worker.shift import Shift, eventually

pytestmark = pytest.mark.slow


def test_progress_can_be_seen_while_the_work_goes_on(live: Outlast) -> None:
    may_go = threading.Event()

    @live.task
    def counts(ctx: Context) -> None:
        ctx.progress(3, total=9, note="pages")
        may_go.wait(30)

    with Shift(live.worker(name="w")):
        task = counts.enqueue()
        (said,) = eventually(lambda: [one for w in live.workers() for one in w.progress or ()])
        assert said == {"task_id": task.id, "done": 3, "total": 9, "note": "pages"}
        may_go.set()
        task.wait(30)


def _checkpoints_and_dies(path: str) -> None:
    from outlast import Outlast
    from outlast.tasks.context import Context
    from tests.support.childside import die

    app = Outlast(path)

    @app.task
    def steps(ctx: Context) -> None:
        ctx.checkpoint("manual_checkpoint", {"page": 1})
        ctx.checkpoint("manual_checkpoint", {"page": 2}, metadata={"by": "hand"})
        ctx.checkpoint("llm_response", "text")
        die()

    app.worker().run()


def test_a_checkpoint_of_a_crashed_attempt_is_there_for_the_next(live: Outlast) -> None:
    @live.task
    def steps(ctx: Context) -> Any:
        newest = ctx.latest_checkpoint()
        page = ctx.latest_checkpoint("manual_checkpoint")
        nothing = ctx.latest_checkpoint("tool_executed")
        assert newest is not None
        assert page is not None
        return [ctx.attempt, newest.data, page.data, page.metadata, page.attempt, nothing]

    task = steps.enqueue()
    with Child(_checkpoints_and_dies, live.path) as child:
        assert child.wait() == -9
    live.worker().run(until_empty=True)
    assert live.get(task.id).result == [2, "text", {"page": 2}, {"by": "hand"}, 1, None]


def test_wait_sleeps_unless_there_is_a_reason_not_to(live: Outlast) -> None:
    waited: list[Any] = []

    @live.task
    def naps(ctx: Context) -> None:
        began_at = time.monotonic()
        waited.append(ctx.wait(0.05))
        waited.append(time.monotonic() - began_at)
        ctx.raise_if_cancelled()

    naps.enqueue()
    assert live.worker().run(until_empty=True).completed == 1
    assert waited[0] is False
    assert waited[1] >= 0.05


def test_a_stopping_worker_says_so_to_its_handlers(live: Outlast) -> None:
    heard: list[Any] = []

    @live.task
    def patient(ctx: Context) -> str:
        heard.append(ctx.stopping)
        heard.extend((ctx.wait(60), ctx.stopping, ctx.cancelled))
        return "finished early"

    with Shift(live.worker()) as shift:
        task = patient.enqueue()
        eventually(lambda: heard)
        shift.worker.stop()
        assert shift.ended().completed == 1
    assert heard == [False, True, True, False]
    assert live.get(task.id).result == "finished early", "what it did still counts"


def test_raise_if_cancelled_raises_only_then(live: Outlast) -> None:
    raised: list[Any] = []

    @live.task
    def checks(ctx: Context) -> None:
        ctx.raise_if_cancelled()
        raised.append("begun")
        ctx.wait(60)
        try:
            ctx.raise_if_cancelled()
        except TaskCancelled as error:
            raised.append(str(error))
            raise

    with Shift(live.worker()):
        task = checks.using(id="t1").enqueue()
        eventually(lambda: raised)
        live.cancel("t1")
        eventually(lambda: len(raised) == 2)
        with pytest.raises(TaskCancelled):
            task.wait(30)
    assert "t1" in raised[1]


def test_a_checkpoint_of_a_cancelled_task_is_refused(live: Outlast) -> None:
    """A handler that goes on after its lease was lost is a zombie, and a zombie cannot write."""
    outcome: list[str] = []

    @live.task
    def zombie(ctx: Context) -> None:
        outcome.append("begun")
        ctx.wait(60)
        try:
            ctx.checkpoint("manual_checkpoint", 1)
        except Exception as error:
            outcome.append(type(error).__name__)

    with Shift(live.worker()):
        task = zombie.enqueue()
        eventually(lambda: outcome)
        live.cancel(task.id)
        eventually(lambda: len(outcome) == 2)
    assert outcome[1] == "LeaseLost"
    assert live.checkpoints(task.id) == []
