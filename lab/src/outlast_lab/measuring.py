"""The part of a life in which work is counted and traced."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from outlast.app.lease import Lease
from outlast.store.new_tasks import NewTask
from outlast.store.records import Claimed, TaskTrace, Trace
from outlast.tasks.execute import Ended
from outlast_lab.inside import store_of
from outlast_lab.witness import Witness

_CONTEXT = "00-{:032x}-{:016x}-01"


class _Fixed:
    """One that traces, always in the same words."""

    def __init__(self, number: int) -> None:
        self.trace: Trace | None = Trace(_CONTEXT.format(1, number), "vendor=1")

    def sending(self, new: Sequence[NewTask]) -> "_Fixed":
        return self

    def attempt(self, claimed: Claimed, before: TaskTrace | None) -> "_Fixed":
        return self

    def inside(self, trace: Trace) -> AbstractContextManager[object]:
        return nullcontext()

    def current(self) -> AbstractContextManager[object]:
        return nullcontext()

    def end(self, ended: Ended | BaseException | None) -> None:
        """It has nobody to tell."""


def count_and_trace(one: Witness) -> None:
    """Attempts are noted, sums move on twice, and the removal of a task moves them on too."""
    one.app.use_tracing(_Fixed(1))
    one.enqueue("traced", priority=9)
    one.enqueue_many(["traced-2", "traced-3"], [2, 3])
    one.app.use_tracing(None)
    leases = one.claim(limit=3)
    for number, lease in enumerate(leases, 2):
        one.call("trace", {}, partial(_note, one, lease, _CONTEXT.format(1, number)))
    one.call("fold", {}, _fold(one))
    for lease in leases[:2]:
        one.complete(lease, 1)
    for lease in leases[2:]:
        one.release(lease)
    one.call("fold", {}, _fold(one))
    one.take(1)


def _note(one: Witness, lease: Lease, traceparent: str) -> bool:
    return store_of(one.app).note_trace_soon(lease.grant, traceparent).result()


def _fold(one: Witness) -> Callable[[], Any]:
    return lambda: store_of(one.app).fold_metrics(1)
