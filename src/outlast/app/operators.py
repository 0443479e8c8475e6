"""The verbs by which people decide about tasks and queues, and the record of who decided what.

Whoever gives a name by `by` is on record: the change, its row in the log and its entry in the
audit are one transaction.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from outlast.app.handle import StoreHandle
from outlast.app.reading import ReadVerbs
from outlast.domain.lifecycle import Parked, Status
from outlast.domain.names import checked_id, checked_name, checked_whole
from outlast.domain.operator_acts import (
    LIBRARY,
    Act,
    AuditRecord,
    Forced,
    Signature,
    checked_force,
    checked_reason,
    signed,
)
from outlast.domain.status_words import status_named
from outlast.domain.task import Task
from outlast.errors import InvalidInput, PayloadDamaged
from outlast.store.orders import Done, Order
from outlast.store.session import Session
from outlast.tasks import enqueue, settle

AT_ONCE = 500
MAX_ENTRIES = 100_000
ALL = -1


class OperatorVerbs(ReadVerbs):
    """What people do to tasks and queues by their word."""

    _handle: StoreHandle

    def retry(self, task_id: str, *, by: str | None = None, source: str = LIBRARY) -> Task:
        """Run a final task anew, as a clone that names the original in `retry_of`."""
        if by is None:
            return enqueue.retry(*self._on(task_id)).waiting_by(self.wait)
        session, done = self._act(task_id, Act.CLONE, signed(by, source))
        return enqueue.existing(session, done.new_id or task_id).waiting_by(self.wait)

    def cancel(self, task_id: str, *, by: str | None = None, source: str = LIBRARY) -> bool:
        """Stop a pending or running task for good; False when it was cancelled already."""
        if by is None:
            return settle.cancel(*self._on(task_id))
        return self._act(task_id, Act.CANCEL, signed(by, source))[1].is_changed

    def fail(
        self, task_id: str, error: str, *, by: str | None = None, source: str = LIBRARY
    ) -> Task:
        """Fail a task by an operator's word, whoever holds it."""
        if by is None:
            return settle.fail_by_operator(*self._on(task_id), error).waiting_by(self.wait)
        signature = signed(by, source, settle.error_text(error))
        session, _ = self._act(task_id, Act.FAIL, signature)
        return enqueue.existing(session, task_id).waiting_by(self.wait)

    def park(
        self,
        task_id: str,
        reason: Parked | str = Parked.HOLD,
        *,
        by: str | None = None,
        source: str = LIBRARY,
    ) -> bool:
        """Keep a pending task from being claimed until it is unparked."""
        parked = settle.checked_reason(reason)
        if parked is Parked.DELAY:
            raise InvalidInput("a delay is given when a task is enqueued, released or failed")
        if by is not None:
            return self._act(task_id, Act.PARK, signed(by, source), parked)[1].is_changed
        session, task_id = self._on(task_id)
        return session.store.tasks.park(task_id, parked, session.now())

    def unpark(self, task_id: str, *, by: str | None = None, source: str = LIBRARY) -> bool:
        """Let a parked or delayed task run now; False when it was not parked."""
        if by is not None:
            return self._act(task_id, Act.UNPARK, signed(by, source))[1].is_changed
        session, task_id = self._on(task_id)
        return session.store.tasks.unpark(task_id, session.now())

    def pause(self, queue: str, *, by: str | None = None, source: str = LIBRARY) -> bool:
        """Hand out nothing from a queue; False when it was paused already."""
        queue, signature = checked_name(queue, "queue"), _perhaps(by, source)
        session = self._handle.serve()
        return session.store.queues.pause(queue, session.now(), signature)

    def unpause(self, queue: str, *, by: str | None = None, source: str = LIBRARY) -> bool:
        """Hand out tasks of a queue again; False when it was not paused."""
        queue, signature = checked_name(queue, "queue"), _perhaps(by, source)
        session = self._handle.serve()
        return session.store.queues.unpause(queue, session.now(), signature)

    def force(
        self,
        task_id: str,
        action: str,
        *,
        by: str,
        reason: str | None = None,
        source: str = LIBRARY,
    ) -> Forced:
        """Retry, fail or put back (`pending`) a task by an operator's word, whoever holds it.

        A living holder loses its lease, and learns of it at its next write. A task that waits is
        made eligible; one that is final runs anew as another task, by `retry` alone.
        """
        signature = _signed_for(by, source, reason)
        _, done = self._act(task_id, checked_force(action), signature)
        return _forced(done)

    def force_many(
        self,
        action: str,
        task_ids: Sequence[str] | None = None,
        *,
        status: Status | str | None = None,
        queue: str | None = None,
        group: str | None = None,
        kind: str | None = None,
        by: str,
        reason: str | None = None,
        source: str = LIBRARY,
        on_batch: Callable[[list[Forced]], None] | None = None,
    ) -> list[Forced]:
        """The same for tasks by their ids, or for all that fit; one that cannot be is left out.

        At most 500 are done in a transaction, with one entry in the audit; `on_batch` hears of
        each and may raise to stop there. Final tasks that fit and were retried before are passed
        over, so that a call which was cut short may be made again.
        """
        act, signature = checked_force(action), _signed_for(by, source, reason)
        if (task_ids is None) == (status is None):
            raise InvalidInput("give the ids of tasks, or a status and what else they must fit")
        scope = None
        if status is not None:
            wanted = status_named(status)
            scope = _scope(wanted.value, queue, group, kind)
            task_ids = self._fitting(act, wanted, queue, group, kind)
        ids = list(dict.fromkeys(checked_id(one) for one in task_ids or ()))
        session, told = self._handle.serve(), list[Forced]()
        for batch in _in_batches(ids):
            done = _all_of(session, batch, act, signature, scope)
            told += done
            if on_batch is not None:
                on_batch(done)
        return told

    def held_recoveries(self, limit: int = MAX_ENTRIES) -> list[str]:
        """The tasks that recovery holds for approval, by their ids, oldest first."""
        return self._handle.look().operators.held_ids(checked_whole(limit, "limit", 1, MAX_ENTRIES))

    def approve_recovery(
        self, task_id: str | Sequence[str] | None = None, *, by: str, source: str = LIBRARY
    ) -> list[str]:
        """Let tasks run that recovery holds for approval, and return their ids.

        One, or those of a list that are held, or all that are held now. A task that is held for
        another reason is not recovery's to approve: named alone it is refused, else left out.
        """
        signature = signed(by, source)
        if isinstance(task_id, str):
            self._act(task_id, Act.APPROVE, signature)
            return [task_id]
        given = None if task_id is None else list(dict.fromkeys(map(checked_id, task_id)))
        session, approved = self._handle.serve(), list[str]()
        for batch in _in_batches(session.store.operators.held_ids(ALL) if given is None else given):
            orders = [Order(one, Act.APPROVE) for one in batch]
            done = session.store.operators.operate(
                orders, signature, session.now(), "held recoveries"
            )
            approved += [one.task_id for one in done if one.is_changed]
        return approved

    def audit(
        self, after: int = 0, limit: int = 1000, *, items: bool = False, newest: bool = False
    ) -> list[AuditRecord]:
        """Who did what: recovery runs, healing passes, operators' acts; oldest first.

        Read on behind the last one's `id`; `newest` reads from the end. With `items` each task and
        each lock that anyone but its holder moved is an entry of its own.
        """
        after = checked_whole(after, "after", 0, (1 << 63) - 1)
        limit = checked_whole(limit, "limit", 1, MAX_ENTRIES)
        reads = self._handle.look()
        return (reads.operators.audit_items if items else reads.operators.audit)(
            after, limit, newest
        )

    def _act(
        self, task_id: str, act: Act, by: Signature, parked: Parked = Parked.HOLD
    ) -> tuple[Session, Done]:
        """One act on one task; what stands against it is raised."""
        session, task_id = self._on(task_id)
        order = _order(session, task_id, act)._replace(parked=parked)
        (done,) = session.store.operators.operate([order], by, session.now())
        if done.error is not None:
            raise done.error
        return session, done

    def _on(self, task_id: str) -> tuple[Session, str]:
        """The store opened to serve, once the id is known to be one."""
        checked = checked_id(task_id)
        return self._handle.serve(), checked

    def _fitting(
        self,
        act: Act,
        wanted: Status,
        queue: str | None,
        group: str | None,
        kind: str | None,
    ) -> list[str]:
        """The ids of all that fit, oldest first, as they stood at one moment."""
        # A clone has its original's queue, group and kind, so one read shows both.
        of_any = act is Act.RETRY
        chosen, retried = list[str](), set[str]()
        with self.snapshot(None if of_any else wanted, queue, group) as tasks:
            for task in tasks:
                if task.retry_of is not None:
                    retried.add(task.retry_of)
                if task.status is wanted and kind in (None, task.kind):
                    chosen.append(task.id)
        return [one for one in reversed(chosen) if not (of_any and one in retried)]


def _perhaps(by: str | None, source: str) -> Signature | None:
    return None if by is None else signed(by, source)


def _signed_for(by: str, source: str, reason: str | None) -> Signature:
    reason = checked_reason(reason)
    return signed(by, source, None if reason is None else settle.error_text(reason))


def _order(session: Session, task_id: str, act: Act) -> Order:
    """With the clone that a final task needs; what is final never changes again."""
    if act in (Act.RETRY, Act.CLONE):
        found = session.store.tasks.get(task_id)
        if found is not None and found.is_final:
            return Order(task_id, act, clone=enqueue.clone_of(found, session.now()))
    return Order(task_id, act)


def _all_of(
    session: Session, ids: Sequence[str], act: Act, by: Signature, scope: str | None
) -> list[Forced]:
    """One batch; a task whose payload is damaged cannot be run anew, and is left out."""
    orders, damaged = list[Order](), list[Forced]()
    for one in ids:
        try:
            orders.append(_order(session, one, act))
        except PayloadDamaged as error:
            damaged.append(Forced(one, "", False, refused=str(error)))
    done = session.store.operators.operate(orders, by, session.now(), scope) if orders else []
    return [*map(_forced, done), *damaged]


def _forced(done: Done) -> Forced:
    refused = None if done.error is None else str(done.error)
    return Forced(done.task_id, done.became, done.is_changed, done.new_id, refused)


def _scope(status: str, queue: str | None, group: str | None, kind: str | None) -> str:
    parts = [f"{status} tasks"]
    parts += [f"of kind {kind}"] if kind else []
    parts += [f"in queue {queue}"] if queue else []
    parts += [f"of group {group}"] if group else []
    return " ".join(parts)


def _in_batches(ids: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(ids)
    while batch := list(islice(rest, AT_ONCE)):
        yield batch
