"""Operators' acts: the move, its row in the log and its entry in the audit are one transaction."""

from collections.abc import Sequence
from typing import Any

from outlast.clock import Instant
from outlast.domain.events import PARKED, QUEUE_PAUSED, QUEUE_RESUMED, UNPARKED
from outlast.domain.lifecycle import FINAL, Cause, Status, decide
from outlast.domain.operator_acts import NOT_THERE, Act, Signature, cause_of
from outlast.errors import InvalidTransition, OutlastError, TaskNotFound
from outlast.store.operating import Done, Order
from outlast.store.ops import audit, settle, tasks
from outlast.store.ops.events import add_event
from outlast.store.ops.settle import Ending, Standing
from outlast.store.sqlite.serving import Serving
from outlast.store.sqlite.transaction import Transaction
from outlast.store.sqlite.wakeups.listener import ANYBODY, LOOKING_FOR_WORK

IDS_NAMED = 100

_WAITING = {
    Act.PARK: "park_task",
    Act.UNPARK: "unpark_task",
    Act.RETRY: "unpark_task",
    Act.PENDING: "unpark_task",
    Act.APPROVE: "approve_recovery",
}


class Operating(Serving):
    """The part of the store that operators act by."""

    def operate(
        self, orders: Sequence[Order], by: Signature, now: Instant, scope: str | None = None
    ) -> list[Done]:
        """Carry out orders: all that can be, together, with one entry in the record."""

        def operation(tx: Transaction) -> list[Done]:
            return _Acting(tx, by, now).carry_out(orders, scope)

        ids = [one.task_id for one in orders]
        return self._write("settle", operation, ids, alone=len(orders) > 1, wakes=ANYBODY)

    def pause(self, queue: str, now: Instant, by: Signature | None = None) -> bool:
        """Hand out nothing from a queue; False when it was paused already."""
        return self._switch(queue, "pause", now, by)

    def unpause(self, queue: str, now: Instant, by: Signature | None = None) -> bool:
        """Hand out tasks of a queue again; False when it was not paused."""
        return self._switch(queue, "unpause", now, by)

    def _switch(self, queue: str, verb: str, now: Instant, by: Signature | None) -> bool:
        is_pause = verb == "pause"
        statement = "pause_queue" if is_pause else "unpause_queue"
        kind = QUEUE_PAUSED if is_pause else QUEUE_RESUMED

        def operation(tx: Transaction) -> bool:
            changed = tx.run(statement, {"queue": queue, "now": now.utc_ms}) == 1
            if changed:
                actor = {} if by is None else {"actor": by.actor}
                add_event(tx, kind, now, {"queue": queue} | actor)
            if changed and by is not None:
                act = audit.Act(by.actor, by.source, f"queue.{verb}", queue, _why(by))
                audit.add_audit(tx, act, now)
            return changed

        return self._write("pause", operation, wakes=LOOKING_FOR_WORK)


class _Acting:
    """The orders of one transaction."""

    def __init__(self, tx: Transaction, by: Signature, now: Instant) -> None:
        self._tx = tx
        self._by = by
        self._now = now
        self._endings: list[Ending] = []
        self._causes: dict[Cause, Cause] = {}

    def carry_out(self, orders: Sequence[Order], scope: str | None) -> list[Done]:
        """One by one as far as they are decided, then all moves at once, then the record."""
        done = [self._decide(order) for order in orders]
        moved = iter(settle.move(self._tx, self._endings, self._now))
        done = [
            one._replace(became=next(moved).to.value) if one.became == "" else one for one in done
        ]
        self._put_on_record(orders, done, scope)
        return done

    def _decide(self, order: Order) -> Done:
        row = self._tx.row("situation_by_id", {"id": order.task_id})
        if row is None:
            return Done(order.task_id, "", NOT_THERE, False, error=TaskNotFound(order.task_id))
        standing = Standing(*row)
        try:
            return self._apply(order, standing)
        except OutlastError as error:
            return Done(order.task_id, standing.status, standing.status, False, error=error)

    def _apply(self, order: Order, standing: Standing) -> Done:
        was, act = standing.status, order.act
        as_before = Done(order.task_id, was, was, False)
        if act is Act.CLONE or (act is Act.RETRY and was in FINAL):
            return self._clone(order, as_before)
        if act is Act.CANCEL and was == Status.CANCELLED:
            return as_before
        if act in (Act.PARK, Act.UNPARK, Act.APPROVE):
            return as_before._replace(is_changed=self._wait_or_go(order, was))
        cause = cause_of(standing.situation, act, self._by)
        if cause is None:
            return as_before._replace(is_changed=self._wait_or_go(order, was))
        # Raises what it has to say against the move, before anything is moved.
        decide(standing.situation, cause)
        self._endings.append((standing, self._causes.setdefault(cause, cause), None))
        return Done(order.task_id, was, "", True)

    def _clone(self, order: Order, as_before: Done) -> Done:
        if as_before.was in FINAL and order.clone is None:
            raise InvalidTransition(f"task {order.task_id} {as_before.was} meanwhile; ask again")
        if as_before.was not in FINAL or order.clone is None:
            raise InvalidTransition(
                f"task {order.task_id} is {as_before.was}; only a final task can be retried"
            )
        tasks.add_tasks(self._tx, [order.clone], self._now)
        return as_before._replace(is_changed=True, new_id=order.clone.id)

    def _wait_or_go(self, order: Order, status: str) -> bool:
        if status != Status.PENDING:
            raise InvalidTransition(
                f"task {order.task_id} is {status}; only a pending task can be parked or unparked"
            )
        is_parking = order.act is Act.PARK
        reason = {"reason": order.parked.value} if is_parking else {}
        values = {"id": order.task_id, "now": self._now.utc_ms} | reason
        if not self._tx.run(_WAITING[order.act], values):
            if order.act is Act.APPROVE:
                raise InvalidTransition(f"task {order.task_id} is not held by recovery")
            return False
        data = {"actor": self._by.actor} | reason
        kind = PARKED if is_parking else UNPARKED
        add_event(self._tx, kind, self._now, data, task_id=order.task_id)
        return True

    def _put_on_record(
        self, orders: Sequence[Order], done: Sequence[Done], scope: str | None
    ) -> None:
        """One entry for all: a task by its id, many by what was meant and the first of them."""
        changed = [one for one in done if one.is_changed]
        if not changed:
            return
        data: dict[str, Any] = {"changed": len(changed)} | _why(self._by)
        if scope is None and len(orders) == 1:
            subject, one = changed[0].task_id, changed[0]
            data = {"from": one.was, "to": one.became} | _why(self._by)
            data |= {"new_id": one.new_id} if one.new_id else {}
        else:
            subject = scope or f"{len(orders)} tasks"
            data["task_ids"] = [one.task_id for one in changed[:IDS_NAMED]]
            data["left_out"] = len(done) - len(changed)
        action = f"task.{'retry' if orders[0].act is Act.CLONE else orders[0].act.value}"
        act = audit.Act(self._by.actor, self._by.source, action, subject, data)
        audit.add_audit(self._tx, act, self._now)


def _why(by: Signature) -> dict[str, str]:
    return {} if by.reason is None else {"reason": by.reason}
