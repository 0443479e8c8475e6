"""The rules of those who hold leases, whether these are still theirs or not."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.property.harness import QUEUES, Harness, Held
from tests.property.records import VALUES, Wish
from tests.property.strategies import (
    apps,
    batches,
    leases,
    names_of_values,
    waits,
    with_leases,
    workers,
)


class Holding(Harness):
    @with_leases
    @rule(app=apps, held=leases, worker=workers)
    def overtaken(self, app: int, held: Held, worker: str) -> None:
        """A lease runs out and its task, with all others, goes to somebody else, or to the same."""
        self.advance(held.expected.length_ms / 1000)
        self.claim(app, Wish(worker=worker, limit=9, queues=QUEUES))

    @with_leases
    @rule(held=leases, verb=st.sampled_from(["start", "renew", "checkpoint"]))
    def works(self, held: Held, verb: str) -> None:
        if verb == "start":
            self.start(held)
        elif verb == "renew":
            self.both(held.real.renew, lambda: self.model.renew(held.expected))
        else:
            self.both(
                lambda: held.real.checkpoint("tool_executed", {"so": "far"}).sequence_number,
                lambda: self.model.checkpoint(held.expected, "tool_executed"),
            )

    def start(self, held: Held) -> None:
        self.both(held.real.start, lambda: self.model.begin(held.expected))

    @with_leases
    @rule(held=leases, named=names_of_values)
    def completes(self, held: Held, named: str) -> None:
        self.complete(held, VALUES[named])

    @with_leases
    @rule(batch=batches)
    def complete_many(self, batch: list[Held]) -> None:
        app = batch[0].app
        results = [f"result {n}" for n in range(len(batch))]
        before = {one: one.expected.settled for one in batch}
        self.both(
            lambda: self.apps[app].complete_many(
                [(one.real, result) for one, result in zip(batch, results, strict=True)]
            ),
            lambda: self.model.complete_many(
                app, [(one.expected, result) for one, result in zip(batch, results, strict=True)]
            ),
        )
        for one, was_settled in before.items():
            self.accepted[one.expected.task] += one.expected.settled and not was_settled

    @with_leases
    @rule(held=leases, retry=st.sampled_from([True, True, False]), delay=waits)
    def fails(self, held: Held, retry: bool, delay: int | None) -> None:
        self.fail(held, retry, delay)

    @with_leases
    @rule(held=leases, reason=st.sampled_from([None, None, "event", "delay"]), delay=waits)
    def hand_back(self, held: Held, reason: str | None, delay: int | None) -> None:
        """Released, perhaps for later, or parked for a reason of the task's own."""
        if reason == "event":
            delay = None
        elif reason == "delay":
            delay = delay or 0
        seconds = None if delay is None else delay / 1000
        if reason is None:
            self.both(
                lambda: held.real.release(seconds),
                lambda: self.model.release(held.expected, delay),
            )
        else:
            self.both(
                lambda: held.real.park(reason, seconds),
                lambda: self.model.park_held(held.expected, reason, delay),
            )
