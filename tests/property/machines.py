"""Three machines on the same rules: one for everything, two that dwell on what goes deep."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.property.enqueuing import Enqueuing
from tests.property.harness import QUEUES, Held
from tests.property.holding import Holding
from tests.property.records import Wish
from tests.property.strategies import (
    apps,
    at_work,
    ids,
    leases,
    queues,
    wishes,
    with_leases,
    with_ready,
    with_tasks,
    workers,
)

disturbances = st.sampled_from("pause unpause heal flush close leave crash".split())
endings = st.sampled_from("heal close leave crash".split())
clock_steps = st.sampled_from([-7200, 15])
"""Far back, and forward past a delay."""


class AnythingHappens(Enqueuing, Holding):
    """All that a program, its operator, the clock and fate can do to a queue."""

    @with_ready
    @rule(app=apps, wish=wishes)
    def claims(self, app: int, wish: Wish) -> None:
        self.claim(app, wish)

    @with_ready
    @rule(app=apps, wish=wishes)
    def prefetches(self, app: int, wish: Wish) -> None:
        self.claim(app, replace(wish, begun=False))

    @with_ready
    @rule(app=apps, wish=wishes)
    def takes(self, app: int, wish: Wish) -> None:
        self.take(app, wish)

    @with_tasks
    @rule(app=apps, task_id=ids, verb=st.sampled_from(["cancel", "fail", "park", "unpark"]))
    def operate(self, app: int, task_id: str, verb: str) -> None:
        real = self.apps[app]
        if verb == "cancel":
            self.cancel(app, task_id)
        elif verb == "fail":
            word = "no longer wanted"
            self.serving(
                app, lambda: real.fail(task_id, word).id, lambda: self.model.fail_by_word(task_id)
            )
        elif verb == "park":
            self.serving(app, lambda: real.park(task_id), lambda: self.model.park(task_id, "hold"))
        else:
            self.unpark(app, task_id)

    @rule(seconds=st.sampled_from([0.5, 1, 5, 25, 200]))
    def time_passes(self, seconds: float) -> None:
        """Past short leases and delays, past long ones, past the keys."""
        self.advance(seconds)

    @at_work
    @rule(app=apps, event=disturbances, queue=queues)
    def disturb(self, app: int, event: str, queue: str) -> None:
        """One rule for what should happen now and then, or it would happen all the time."""
        if event in ("pause", "unpause"):
            self.pause(app, queue, event == "pause")
        elif event == "flush":
            self.serving(app, lambda: self.apps[app].flush_wal("passive").busy, lambda: False)
        else:
            self.end(app, event)

    @rule(seconds=clock_steps)
    def wall_clock_is_set(self, seconds: float) -> None:
        """Delays and keys follow the wall clock; leases must not care."""
        self.clock.step_utc(seconds)
        self.advance(0)


class LeasesAreLost(Holding):
    """Few tasks that change hands again and again: zombies, prefetch, crashes, budgets."""

    @rule(app=apps, worker=workers, limit=st.integers(1, 4), begun=st.booleans())
    def claims(self, app: int, worker: str, limit: int, begun: bool) -> None:
        """From a queue that never runs dry."""
        self.add_work(app, 3 - len(self.model.tasks) + len(self.model.final()))
        self.claim(app, Wish(worker=worker, limit=limit, begun=begun))

    @with_leases
    @rule(held=leases, event=endings)
    def holder_ends(self, held: Held, event: str) -> None:
        self.end(held.app, event)

    @with_leases
    @rule(held=leases, seconds=st.sampled_from([1, 70]), speak=st.booleans(), crash=st.booleans())
    def returns(self, held: Held, seconds: float, speak: bool, crash: bool) -> None:
        """The same process prefetches the task anew, while the first holder still has a say."""
        self.advance(seconds)
        for again in self.claim(held.app, Wish(limit=9, begun=False)):
            self.start(again)
        if speak:
            self.start(held)
        self.complete(held, "late")
        if crash:
            self.end(held.app, "crash")


class KeysAreRepeated(Enqueuing):
    """The same few ids and keys, while the tasks behind them end well, badly, or vanish."""

    @with_ready
    @rule(app=apps, verb=st.sampled_from("complete fail cancel take leave".split()))
    def finish(self, app: int, verb: str) -> None:
        """The first tasks that can be claimed go this way."""
        wish = Wish(queues=QUEUES, limit=2)
        if verb == "take":
            self.take(app, wish)
            return
        for held in self.claim(app, wish):
            if verb == "complete":
                self.complete(held, {"ok": True})
            elif verb == "fail":
                self.fail(held, retry=False)
            elif verb == "cancel":
                self.cancel(app, held.real.task_id)

    @rule(seconds=st.sampled_from([25, 200]))
    def time_passes(self, seconds: float) -> None:
        self.advance(seconds)

    @rule(app=apps, event=endings, seconds=clock_steps)
    def clock_is_set(self, app: int, event: str, seconds: float) -> None:
        """Perhaps while nobody looks: what opens next clears out the keys that ran out."""
        self.end(app, event)
        self.clock.step_utc(seconds)
        self.advance(0)
