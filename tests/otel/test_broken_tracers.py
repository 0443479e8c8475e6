"""A tracer that fails, wherever it is told something: the work goes on as if nobody traced."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from outlast import AsyncOutlast, Outlast
from outlast.store.new_tasks import NewTask
from outlast.store.records import Claimed, TaskTrace, Trace
from outlast.tasks.execute import Ended
from tests.otel import traced_jobs as jobs

TRACE = Trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None)
PLACES = ("sending", "sent", "attempt", "entering", "leaving", "ended")


class Broken:
    """Raises at one of the places where a tracer is told something."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.trace: Trace | None = TRACE

    def _at(self, place: str) -> None:
        if place == self.place:
            raise ValueError(f"the tracer broke at {place}")

    def sending(self, new: Sequence[NewTask]) -> "BrokenSending":
        self._at("sending")
        return BrokenSending(self)

    def attempt(self, claimed: Claimed, before: TaskTrace | None) -> "BrokenAttempt":
        self._at("attempt")
        return BrokenAttempt(self)

    def inside(self, trace: Trace) -> AbstractContextManager[object]:
        return self.block()

    @contextmanager
    def block(self) -> Iterator[None]:
        self._at("entering")
        yield
        self._at("leaving")


class BrokenSending:
    def __init__(self, tracer: Broken) -> None:
        self._tracer = tracer
        self.trace: Trace | None = TRACE

    def end(self, error: BaseException | None) -> None:
        self._tracer._at("sent")


class BrokenAttempt:
    def __init__(self, tracer: Broken) -> None:
        self._tracer = tracer
        self.trace: Trace | None = TRACE

    def current(self) -> AbstractContextManager[object]:
        return self._tracer.block()

    def end(self, ended: Ended | None) -> None:
        self._tracer._at("ended")


@pytest.mark.parametrize("kind", ["in_a_thread", "on_the_loop"])
@pytest.mark.parametrize("place", PLACES)
def test_a_tracer_that_breaks_anywhere_touches_neither_the_enqueue_nor_the_work(
    database: Path, place: str, kind: str
) -> None:
    with Outlast(database) as app:
        app.functions.register(jobs.app.functions[kind])
        app.use_tracing(Broken(place))
        task = app.enqueue(kind)
        tally = app.worker(concurrency=1).run(until_empty=True)
        assert (tally.completed, app.get(task.id).status) == (1, "completed")


def test_a_coroutines_enqueue_is_not_touched_by_a_tracer_that_breaks(database: Path) -> None:
    async def enqueue() -> str:
        async with AsyncOutlast(database) as app:
            app.use_tracing(Broken("sent"))
            return (await app.enqueue("mail")).id

    task_id = asyncio.run(enqueue())
    with Outlast(database) as app:
        assert app.get(task_id).status == "pending"


def test_a_handlers_own_error_is_not_changed_by_a_tracer_that_breaks(database: Path) -> None:
    with Outlast(database) as app:
        app.functions.register(jobs.app.functions["fails"])
        app.use_tracing(Broken("leaving"))
        task = app.enqueue("fails", {"secret": "x"}, max_retries=0)
        app.worker(concurrency=1).run(until_empty=True)
        assert "cannot read x" in (app.get(task.id).error or "")
