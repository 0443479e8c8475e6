"""Operators' acts: the move, its row in the log and its entry in the audit are one transaction."""

from collections.abc import Sequence
from typing import Any

from outlast.clock import Instant
from outlast.domain.events import PARKED, UNPARKED
from outlast.domain.lifecycle import FINAL, Cause, Status, decide
from outlast.domain.operator_acts import NOT_THERE, Act, AuditRecord, Signature, cause_of
from outlast.errors import InvalidTransition, OutlastError, TaskNotFound
from outlast.store.access import Access
from outlast.store.ops import audit, enqueue, settle
from outlast.store.ops.events import add_event
from outlast.store.ops.settle import Ending, TaskRow
from outlast.store.orders import Done, Order
from outlast.store.topics import ANYBODY
from outlast.store.transaction import Transaction

IDS_NAMED = 100

_WAITING = {
    Act.PARK: "park_task",
    Act.UNPARK: "unpark_task",
    Act.RETRY: "unpark_task",
    Act.PENDING: "unpark_task",
    Act.APPROVE: "approve_recovery",
}


class Operators:
    """What people do to tasks by their word, and the record of it."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def operate(
        self, orders: Sequence[Order], by: Signature, now: Instant, scope: str | None = None
    ) -> list[Done]:
        """Carry out orders: all that can be, together, with one entry in the record."""

        def operation(tx: Transaction) -> list[Done]:
            return _Acting(tx, by, now).carry_out(orders, scope)

        ids = [one.task_id for one in orders]
        return self._access.write("settle", operation, ids, alone=len(orders) > 1, wakes=ANYBODY)

    def audit(self, after: int, limit: int, is_newest: bool) -> list[AuditRecord]:
        """Acts behind a number, oldest first; or the newest of them."""
        return self._access.read(
            "reading the audit", lambda tx: audit.acts(tx, after, limit, is_newest)
        )

    def audit_items(self, after: int, limit: int, is_newest: bool) -> list[AuditRecord]:
        """The same item by item: each task and lock that was moved by anyone but its holder."""
        return self._access.read(
            "reading the audit", lambda tx: audit.items(tx, after, limit, is_newest)
        )

    def held_ids(self, limit: int) -> list[str]:
        """Tasks that recovery put back and that wait for approval, oldest first."""
        held = {"limit": limit}
        rows = self._access.read("reading tasks", lambda tx: tx.rows("held_recovery_ids", held))
        return [task_id for (task_id,) in rows]


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
        task = TaskRow(*row)
        try:
            return self._apply(order, task)
        except OutlastError as error:
            return Done(order.task_id, task.status, task.status, False, error=error)

    def _apply(self, order: Order, task: TaskRow) -> Done:
        was, act = task.status, order.act
        as_before = Done(order.task_id, was, was, False)
        if act is Act.CLONE or (act is Act.RETRY and was in FINAL):
            return self._clone(order, as_before)
        if act is Act.CANCEL and was == Status.CANCELLED:
            return as_before
        if act in (Act.PARK, Act.UNPARK, Act.APPROVE):
            return as_before._replace(is_changed=self._wait_or_go(order, was))
        cause = cause_of(task.situation, act, self._by)
        if cause is None:
            return as_before._replace(is_changed=self._wait_or_go(order, was))
        # Raises what it has to say against the move, before anything is moved.
        decide(task.situation, cause)
        self._endings.append((task, self._causes.setdefault(cause, cause), None))
        return Done(order.task_id, was, "", True)

    def _clone(self, order: Order, as_before: Done) -> Done:
        if as_before.was in FINAL and order.clone is None:
            raise InvalidTransition(f"task {order.task_id} {as_before.was} meanwhile; ask again")
        if as_before.was not in FINAL or order.clone is None:
            raise InvalidTransition(
                f"task {order.task_id} is {as_before.was}; only a final task can be retried"
            )
        enqueue.add_tasks(self._tx, [order.clone], self._now)
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
        data: dict[str, Any] = {"changed": len(changed)} | why_of(self._by)
        if scope is None and len(orders) == 1:
            subject, one = changed[0].task_id, changed[0]
            data = {"from": one.was, "to": one.became} | why_of(self._by)
            data |= {"new_id": one.new_id} if one.new_id else {}
        else:
            subject = scope or f"{len(orders)} tasks"
            data["task_ids"] = [one.task_id for one in changed[:IDS_NAMED]]
            data["left_out"] = len(done) - len(changed)
        action = f"task.{'retry' if orders[0].act is Act.CLONE else orders[0].act.value}"
        act = audit.Act(self._by.actor, self._by.source, action, subject, data)
        audit.add_audit(self._tx, act, self._now)


def why_of(by: Signature) -> dict[str, str]:
    return {} if by.reason is None else {"reason": by.reason}
