"""The queue and its model side by side: each step is done to both, then both are compared."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import apsw
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from hypothesis.strategies import integers, sampled_from

from outlast import (
    IdempotencyConflict,
    InvalidInput,
    InvalidTransition,
    LeaseLost,
    OutlastError,
    Settings,
    TaskNotFound,
)
from outlast.engine.lease import Lease
from outlast.testing import ManualClock
from tests.property import records
from tests.property.compare import compare, ms
from tests.property.model import Model
from tests.property.records import FINAL, Refused, Rules, Task, Wish
from tests.support.crash import StandInProcess
from tests.support.foreign import INVARIANTS

QUEUES = ("q1", "q2")
PROCESS_OF = (0, 0, 1)
"""Three Outlast objects: two of one process, which share an incarnation, and one of another."""

REFUSALS: dict[type[OutlastError], str] = {
    LeaseLost: "lease lost",
    TaskNotFound: "no such task",
    InvalidTransition: "illegal move",
    IdempotencyConflict: "key conflict",
    InvalidInput: "bad input",
}


@dataclass(frozen=True)
class Outcome:
    """What came of a call: a value, or a refusal in the model's words."""

    value: Any = None
    refusal: tuple[str, tuple[str, ...]] | None = None


def outcome_of(action: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(action())
    except Refused as refused:
        return Outcome(refusal=(refused.word, refused.task_ids))
    except tuple(REFUSALS) as error:
        lost = sorted(error.task_ids) if isinstance(error, LeaseLost) else ()
        return Outcome(refusal=(REFUSALS[type(error)], tuple(lost)))


class Held:
    """One lease as the queue gave it and as the model did."""

    def __init__(self, app: int, real: Lease, expected: records.Lease) -> None:
        self.app = app
        self.real = real
        self.expected = expected

    def __repr__(self) -> str:
        """Short, because Hypothesis prints it in every step of a failing example."""
        return f"<lease {self.expected.token} of {self.real.task_id}>"


class Harness(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="outlast-model-"))
        self.clock = ManualClock()
        self.processes: list[StandInProcess] = []
        self.held: list[Held] = []
        self.accepted: Counter[Task] = Counter()
        self.looks = 0
        self.agree = False
        """Whether the last comparison came out well; if not, there is nothing left to finish."""

    @initialize(action=sampled_from(["retry", "retry", "pending", "fail"]), count=integers(0, 4))
    def make(self, action: Any, count: int) -> None:
        """A new store, perhaps with some work in it."""
        rules = Rules(action=action)
        settings = Settings(
            recovery_action=action,
            max_retries=rules.max_retries,
            max_recovery_attempts=rules.max_recoveries,
            lease_seconds=rules.lease_ms / 1000,
            idempotency_ttl_seconds=rules.key_ttl_ms / 1000,
            heal_interval_seconds=rules.heal_interval_ms / 1000,
            retry_backoff_seconds=rules.backoff_ms / 1000,
            retry_backoff_cap_seconds=rules.backoff_cap_ms / 1000,
            heal_batch=2,
        )
        path = self.folder / "work.db"
        self.model = Model(rules, *self.clock.now(), processes=PROCESS_OF)
        self.processes = [StandInProcess(path, settings, self.clock) for _ in set(PROCESS_OF)]
        self.apps = [self.processes[process].outlast() for process in PROCESS_OF]
        self.apps[0].open()
        self.model.serve(0)
        self.add_work(0, count)

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        """Each object is asked in turn; one that is closed opens to look, and changes nothing."""
        self.agree = False
        self.looks += 1
        compare(self.apps[self.looks % len(self.apps)], self.model)
        self.agree = True

    def ids(self) -> list[str]:
        return [task.id for task in self.model.tasks]

    def both(self, real: Callable[[], Any], expected: Callable[[], Any]) -> Outcome:
        """Do the same to the queue and to the model; they must answer alike."""
        self.agree = False
        came = outcome_of(real)
        self.agree_on(came, outcome_of(expected))
        return came

    def agree_on(self, came: Outcome, wanted: Outcome) -> None:
        self.agree = False
        assert came == wanted, f"the queue answered {came}, the model {wanted}"

    def serving(self, app: int, real: Callable[[], Any], expected: Callable[[], Any]) -> Outcome:
        """The same for a call that opens the store to serve, if it is not open yet."""

        def served() -> Any:
            self.model.serve(app)
            return expected()

        return self.both(real, served)

    # Steps that rules have in common

    def add_work(self, app: int, count: int) -> None:
        if count <= 0:
            return
        self.agree = False
        retries = self.looks % 3
        ids = self.apps[app].enqueue_many("a", range(count), queue="q1", max_retries=retries)
        self.model.serve(app)
        new = [Task(one, payload=n, max_retries=retries) for n, one in enumerate(ids)]
        self.model.enqueue([(task, None) for task in new])

    def claim(self, app: int, wish: Wish) -> list[Held]:
        self.agree = False
        verb = self.apps[app].claim if wish.begun else self.apps[app].prefetch
        seconds = None if wish.lease_ms is None else wish.lease_ms / 1000
        narrowed = {"queue": wish.queues, "kinds": wish.kinds, "group": wish.group}
        leases = verb(wish.worker, limit=wish.limit, lease=seconds, **narrowed)  # type: ignore[arg-type]
        expected = self.model.claim(app, wish)
        assert [(one.task_id, one.token, one.attempt) for one in leases] == [
            (one.task.id, one.token, one.task.attempt) for one in expected
        ]
        assert [(one.payload, one.lease_ms) for one in leases] == [
            (one.task.payload, one.length_ms) for one in expected
        ]
        handed = [Held(app, *pair) for pair in zip(leases, expected, strict=True)]
        self.held += handed
        return handed

    def complete(self, held: Held, result: Any) -> None:
        came = self.both(
            lambda: held.real.complete(result), lambda: self.model.complete(held.expected, result)
        )
        self.accepted[held.expected.task] += came.value is True

    def fail(self, held: Held, retry: bool, delay: int | None = None) -> None:
        seconds = None if delay is None else delay / 1000
        came = self.both(
            lambda: held.real.fail("broken", retry, seconds),
            lambda: self.model.fail(held.expected, retry, delay),
        )
        task = held.expected.task
        if came.value and delay is None and task.parked == "delay":
            task.not_before = self._backed_off(task.id, task.not_before)

    def _backed_off(self, task_id: str, latest: int | None) -> int:
        """How long a retry waits is random: the model knows the longest wait, half is the least."""
        found = ms(self.apps[0].get(task_id).not_before)
        assert found is not None
        assert latest is not None
        assert (latest - self.model.utc) / 2 <= found - self.model.utc <= latest - self.model.utc
        return found

    def pause(self, app: int, queue: str, paused: bool) -> None:
        verb = self.apps[app].pause if paused else self.apps[app].unpause
        self.serving(app, lambda: verb(queue), lambda: self.model.pause(queue, paused))

    def unpark(self, app: int, task_id: str) -> None:
        self.serving(
            app, lambda: self.apps[app].unpark(task_id), lambda: self.model.park(task_id, None)
        )

    def cancel(self, app: int, task_id: str) -> None:
        self.serving(
            app, lambda: self.apps[app].cancel(task_id), lambda: self.model.cancel(task_id)
        )

    def take(self, app: int, wish: Wish) -> None:
        narrowed = {"queue": wish.queues, "kinds": wish.kinds, "group": wish.group}
        self.serving(
            app,
            lambda: [one.id for one in self.apps[app].take(wish.limit, **narrowed)],  # type: ignore[arg-type]
            lambda: self.model.take(wish),
        )

    def heal(self, app: int) -> None:
        def healed() -> tuple[int, int]:
            stats = self.apps[app].heal()
            return stats.entries_reclaimed, stats.entries_failed

        self.serving(app, healed, self.model.heal)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.model.utc, self.model.mono = self.clock.now()

    def end(self, app: int, event: str) -> None:
        """Heal what has ended; or end an object well, or in an error, or its process badly."""
        if event == "heal":
            self.heal(app)
        elif event == "close":
            self.apps[app].close()
            self.model.close(app)
        elif event == "leave":
            self.apps[app].__exit__(ValueError, ValueError("a bug"), None)
            self.model.close(app, in_error=True)
        else:
            self.crash(PROCESS_OF[app])

    def crash(self, process: int) -> None:
        """Its leases die with it: nobody is left who could use them."""
        self.processes[process].crash()
        self.model.crash(process)
        self.held = [one for one in self.held if PROCESS_OF[one.app] != process]
        for app, of in enumerate(PROCESS_OF):
            if of == process:
                self.apps[app] = self.processes[process].outlast()

    # The end

    def teardown(self) -> None:
        try:
            if self.agree:
                self._finish_all_work()
                self._check_results()
                for app in self.apps:
                    app.close()
                self._check_file()
        finally:
            for process in self.processes:
                process.crash()
            shutil.rmtree(self.folder)

    def _finish_all_work(self) -> None:
        """Whatever happened before, nothing is stuck: all that is not final can be completed."""
        for queue in QUEUES:
            self.pause(0, queue, False)
        for task in [task for task in self.model.tasks if task.parked]:
            self.unpark(0, task.id)
        self.advance(86_400)
        for held in self.claim(0, Wish(limit=1000, queues=QUEUES)):
            self.complete(held, "at last")
        self.everything_is_as_the_model_says()
        assert all(task.status in FINAL for task in self.model.tasks)

    def _check_results(self) -> None:
        """A completed task had exactly one result accepted, of an execution; the others none."""
        for task in self.model.tasks:
            completed = self.apps[0].get(task.id).status == "completed"
            executions = sum(move.to_status == "running" for move in self.apps[0].history(task.id))
            assert self.accepted[task] == completed
            assert executions >= completed

    def _check_file(self) -> None:
        """What the crash tests check from outside must hold here too."""
        connection = apsw.Connection(str(self.folder / "work.db"))
        try:
            assert connection.pragma("integrity_check") == "ok"
            for name, query in INVARIANTS.items():
                assert connection.execute(query).fetchall() == [], name
        finally:
            connection.close()
