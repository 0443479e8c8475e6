"""What the queue must do, told without a database and small enough to be checked by reading.

It is the specification the engine is held against, so it shares nothing with it: no import from
the engine, no transition table, no SQL. Times are milliseconds on the simulation's two clocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from outlast_lab.experiments.model.losing import Losing
from outlast_lab.experiments.model.records import (
    FINAL,
    NO_PROGRESS,
    STATUSES,
    Incarnation,
    Key,
    Lease,
    Refused,
    Rules,
    Session,
    Task,
    Wish,
)


class Model(Losing):
    """The queue as a list of tasks; each verb does what the queue must do, or refuses."""

    def __init__(self, rules: Rules, utc: int, mono: int, processes: Mapping[str, str]) -> None:
        """`processes` says which process each Outlast object belongs to."""
        super().__init__(rules, utc, mono)
        self.keys: dict[str, Key] = {}
        self.paused: set[str] = set()
        self.sessions: dict[str, Session] = {}
        self.processes = processes

    # Opening, closing, dying

    def serve(self, app: str) -> Session:
        """Every opening to serve recovers first, and drops the keys that ran out."""
        if app not in self.sessions:
            process = self.processes[app]
            together = [s for a, s in self.sessions.items() if self.processes[a] == process]
            incarnation = together[0].incarnation if together else Incarnation()
            self.sessions[app] = Session(incarnation)
            self.opening = self.heal()
            self.keys = {name: key for name, key in self.keys.items() if not self._is_over(key)}
        return self.sessions[app]

    def close(self, app: str, in_error: bool = False) -> None:
        """Leases are given back; work that was under way when an error struck is charged."""
        session = self.sessions.pop(app, None)
        if session is None:
            return
        for task in self.running():
            if task.lease and task.lease.session is session:
                if in_error and task.lease.begun:
                    self._lose(task, "worker")
                else:
                    self._put_back(task, "worker", refund=True)
        session.ended = True

    def crash(self, process: str) -> None:
        for app in [app for app in self.sessions if self.processes[app] == process]:
            session = self.sessions.pop(app)
            session.ended = session.incarnation.dead = True

    # Putting work in

    def find(self, task_id: str) -> Task:
        for task in self.tasks:
            if task.id == task_id:
                return task
        raise Refused("no such task")

    def enqueue(self, new: Sequence[tuple[Task, str | None]]) -> list[str]:
        """All of them or none; a key that stands for the same request gives back its task."""
        keys = dict(self.keys)
        meant = [task if name is None else self._reserve(keys, name, task) for task, name in new]
        fresh = [task for (task, _), stood in zip(new, meant, strict=True) if task is stood]
        ids = [task.id for task in self.tasks + fresh]
        if len(set(ids)) < len(ids):
            raise Refused("bad input")
        self.keys = keys
        self.tasks += fresh
        return [task.id for task in meant]

    def _reserve(self, keys: dict[str, Key], name: str, task: Task) -> Task:
        request = (task.kind, task.payload)
        found = keys.get(name)
        if found is None or self._is_over(found) or self._may_run_again(found, request):
            keys[name] = Key(request, task, self.utc + self.rules.key_ttl_ms)
            return task
        if found.request != request or found.task is None:
            raise Refused("key conflict")
        return found.task

    def _is_over(self, key: Key) -> bool:
        return self.utc >= key.expires and (key.task is None or key.task.status in FINAL)

    @staticmethod
    def _may_run_again(key: Key, request: Any) -> bool:
        spent = key.task is not None and key.task.status in ("failed", "cancelled")
        return spent and key.request == request

    def retry(self, task_id: str, clone_id: str) -> str:
        """A clone, which answers for the key of an original that failed."""
        original = self.find(task_id)
        if original.status not in FINAL:
            raise Refused("illegal move")
        copied = ("kind", "payload", "queue", "priority", "group", "max_retries", "max_recoveries")
        values = {name: getattr(original, name) for name in copied}
        clone = Task(clone_id, retry_of=task_id, **values)
        self.tasks.append(clone)
        for name, key in self.keys.items():
            if key.task is original and original.status != "completed":
                self.keys[name] = Key(key.request, clone, key.expires)
        return clone_id

    # Handing work out

    def claim(self, app: str, wish: Wish) -> list[Lease]:
        session = self.serve(app)
        if wish.kinds == ():
            return []
        healed = self._heal_before_claim(session, force=False)
        leases = self._hand_out(session, wish, wish.limit)
        short = wish.limit - len(leases)
        if short and not healed and self._heal_before_claim(session, force=True):
            leases += self._hand_out(session, wish, short)
        return leases

    def take(self, wish: Wish) -> list[str]:
        taken = list(islice(self._eligible(wish), wish.limit))
        self.tasks = [task for task in self.tasks if task not in taken]
        for name, key in self.keys.items():
            if key.task in taken:
                self.keys[name] = Key(key.request, None, key.expires)
        return [task.id for task in taken]

    def _eligible(self, wish: Wish) -> Iterator[Task]:
        """Queue by queue in the order asked for; in each by priority, then by insertion."""
        if wish.kinds == ():
            return
        for task in self.tasks:
            if task.parked == "delay" and task.not_before is not None:
                task.parked = None if task.not_before <= self.utc else "delay"
        for queue in [queue for queue in wish.queues if queue not in self.paused]:
            ready = [task for task in self.tasks if task.queue == queue and _fits(task, wish)]
            yield from sorted(ready, key=lambda task: -task.priority)

    def _hand_out(self, session: Session, wish: Wish, limit: int) -> list[Lease]:
        length = wish.lease_ms or self.rules.lease_ms
        leases = []
        for task in list(islice(self._eligible(wish), limit)):
            task.attempt += 1
            task.token += 1
            self._move(task, "running", "worker")
            task.lease = Lease(
                task, task.token, session, wish.worker, length, self.mono + length, wish.begun,
                heard=self.utc,
            )  # fmt: skip
            leases.append(task.lease)
        return leases

    # What a holder may do

    def hold(self, lease: Lease) -> Task:
        if not lease.current:
            raise Refused("lease lost", lease.task.id)
        return lease.task

    def begin(self, lease: Lease) -> None:
        """Not checked against the store: only a holder that has heard of its loss is refused."""
        if lease.session.ended or lease.is_over:
            raise Refused("lease lost", lease.task.id)
        lease.begun = True

    def renew(self, lease: Lease) -> None:
        lease.is_over = not lease.current
        self.hold(lease)
        lease.ends, lease.heard = self.mono + lease.length_ms, self.utc

    def checkpoint(self, lease: Lease, type: str) -> int:
        """Progress: crashes are counted anew from here."""
        task = self.hold(lease)
        if type != NO_PROGRESS:
            task.crashes_in_row = 0
        return task.note(type)

    def settling(self, lease: Lease) -> bool:
        """Whether this settle is the first by this lease; anybody else has lost it."""
        lease.is_over = True
        forgotten = lease.session.ended or lease.task not in self.tasks
        if lease.settled and not forgotten:
            return False
        self.hold(lease)
        lease.settled = True
        return True

    def complete(self, lease: Lease, result: Any) -> bool:
        if not self.settling(lease):
            return False
        lease.task.result = result
        self._move(lease.task, "completed", "worker")
        return True

    def complete_many(self, app: str, pairs: Sequence[tuple[Lease, Any]]) -> list[bool]:
        """Those that can be are completed; then the lost ones are named."""
        self.serve(app)
        answers = []
        lost = []
        for lease, result in pairs:
            try:
                answers.append(self.complete(lease, result))
            except Refused:
                lost.append(lease.task.id)
        if lost:
            raise Refused("lease lost", *lost)
        return answers

    def fail(self, lease: Lease, retry: bool, delay: int | None) -> bool:
        """Without a delay of its own a failure waits longer each time; see backoff."""
        if not self.settling(lease):
            return False
        task = lease.task
        if not retry or task.retries >= task.max_retries:
            self._move(task, "failed", "worker")
            return True
        wait = self.backoff(task)[1] if delay is None else delay
        task.retries += 1
        self._put_back(task, "worker", wait=wait)
        return True

    def backoff(self, task: Task) -> tuple[int, int]:
        full = min(self.rules.backoff_cap_ms, self.rules.backoff_ms * 2**task.retries)
        return full // 2, full

    def release(self, lease: Lease, delay: int | None) -> bool:
        if not self.settling(lease):
            return False
        self._put_back(lease.task, "worker", refund=True, wait=delay or 0)
        return True

    def park_held(self, lease: Lease, reason: str, delay: int | None) -> bool:
        if not self.settling(lease):
            return False
        self._put_back(lease.task, "worker", refund=True)
        lease.task.parked = reason
        lease.task.not_before = None if delay is None else self.utc + delay
        return True

    # What anybody may do

    def cancel(self, task_id: str) -> bool:
        task = self.find(task_id)
        if task.status == "cancelled":
            return False
        self._end(task, "cancelled")
        return True

    def fail_by_word(self, task_id: str) -> str:
        task = self.find(task_id)
        self._end(task, "failed")
        return task.id

    def _end(self, task: Task, status: str) -> None:
        if task.status in FINAL:
            raise Refused("illegal move")
        self._move(task, status, "user")

    def park(self, task_id: str, reason: str | None) -> bool:
        """Park for a reason, or unpark for none; False when there was nothing to unpark."""
        task = self.find(task_id)
        if task.status != "pending":
            raise Refused("illegal move")
        changed = reason is not None or task.parked is not None
        task.parked, task.not_before = reason, None
        return changed

    def pause(self, queue: str, paused: bool) -> bool:
        changed = (queue in self.paused) != paused
        (self.paused.add if paused else self.paused.discard)(queue)
        return changed

    # Looking

    def ready(self) -> list[Task]:
        return [t for t in self.tasks if (t.status, t.parked) == ("pending", None)]

    def final(self) -> list[Task]:
        return [task for task in self.tasks if task.status in FINAL]

    def counts(self, **narrowed: str) -> dict[str, int]:
        found = [t for t in self.tasks if all(getattr(t, k) == v for k, v in narrowed.items())]
        return {status: sum(t.status == status for t in found) for status in STATUSES}


def _fits(task: Task, wish: Wish) -> bool:
    return (
        (task.status, task.parked) == ("pending", None)
        and (wish.kinds is None or task.kind in wish.kinds)
        and (wish.group is None or task.group == wish.group)
    )
