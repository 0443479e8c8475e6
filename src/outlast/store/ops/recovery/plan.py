"""What recovery would do, told and not done: each running task, the decision on it, and why."""

from collections.abc import Iterator

from outlast.clock import Instant, boot_id
from outlast.domain.lifecycle import Cause, RecoveryAction, Status, decide
from outlast.domain.orphans import Judgement, Liveness, Orphaned, judge_task
from outlast.domain.recovery import Decision
from outlast.store.access import Access
from outlast.store.ops.recovery import expiry, loss_causes
from outlast.store.ops.recovery.loss_causes import Evidence
from outlast.store.ops.recovery.orphans import listened_to
from outlast.store.ops.settle import TaskRow
from outlast.store.presence import Judged, Peer, judge
from outlast.store.records import RecoveryPolicy
from outlast.store.transaction import Row, Values

PAGE = 1000

_TASK_ROW = slice(0, len(TaskRow._fields))
_PEER = slice(_TASK_ROW.stop + 2, _TASK_ROW.stop + 2 + len(Peer._fields))
_SPARED = "recovery leaves this kind alone"
_NO_EVIDENCE = Evidence(None, None, None)


class Planner:
    """Judges each process once, and each running task by the one rule."""

    def __init__(self, access: Access, now: Instant, policy: RecoveryPolicy) -> None:
        self._access = access
        self._own = access.presence.own_id
        self._now = now
        self._policy = policy
        self._judged: dict[str, Judged] = {}

    def decisions(self) -> Iterator[Decision]:
        """A decision on every running task, page by page."""
        after: Values = {"after_mono_ms": -2, "after_seq": 0, "limit": PAGE}
        while True:
            rows = self._page(after)
            for row in rows:
                yield self._decision(row)
            if len(rows) < PAGE:
                return
            seq, mono_ms = rows[-1][0], rows[-1][_TASK_ROW.stop + 1]
            after |= {"after_seq": seq, "after_mono_ms": -1 if mono_ms is None else mono_ms}

    def _page(self, after: Values) -> list[Row]:
        return self._access.read("planning", lambda tx: tx.rows("running_tasks", after))

    def _decision(self, row: Row) -> Decision:
        task = TaskRow._make(row[_TASK_ROW])
        expires_at, expires_mono_ms = row[_TASK_ROW.stop : _TASK_ROW.stop + 2]
        judged = self._holder(row)
        left_ms = self._left_ms(judged, expires_at, expires_mono_ms)
        orphaned = judge_task(None if judged is None else judged.judgement, left_ms)
        because = _because(orphaned, judged, left_ms)
        action = self._policy.action_for(task.kind)
        if orphaned is None or action is RecoveryAction.NONE:
            reason = "held" if orphaned is None else "skipped"
            because = because if orphaned is None else f"{because}; {_SPARED}"
            return Decision(
                task.id, task.kind, task.worker, orphaned, because, action,
                Status.RUNNING.value, reason,
            )  # fmt: skip
        cause = self._cause(orphaned, task, judged)
        transition = decide(task.situation, cause)
        return Decision(
            task.id, task.kind, task.worker, orphaned, because, action,
            transition.to.value, transition.reason,
        )  # fmt: skip

    def _cause(self, orphaned: Orphaned, task: TaskRow, judged: Judged | None) -> Cause:
        if orphaned is Orphaned.LEASE_RAN_OUT:
            return expiry.cause(task, self._policy)
        if orphaned is Orphaned.NO_HOLDER or judged is None:
            return loss_causes.nobodys(task, self._policy)
        return loss_causes.loss(task, judged, _NO_EVIDENCE, self._policy)

    def _holder(self, row: Row) -> Judged | None:
        if row[_PEER.start] is None:
            return None
        peer = Peer(*row[_PEER])
        if peer.incarnation not in self._judged:
            patience = self._policy.patience
            (judged,) = judge(self._access.presence, [peer], self._now, patience)
            found = listened_to(self._access, judged, self._now, patience)
            if peer.incarnation == self._own:
                alive = Judgement(Liveness.ALIVE, "it is this process")
                found = found._replace(judgement=alive)
            elif self._policy.is_sole:
                dead = Judgement(Liveness.DEAD, "this process has the store to itself")
                found = found._replace(judgement=dead)
            self._judged[peer.incarnation] = found
        return self._judged[peer.incarnation]

    def _left_ms(
        self, judged: Judged | None, expires_at: int | None, expires_mono_ms: int | None
    ) -> int | None:
        if judged is None or expires_at is None or expires_mono_ms is None:
            return None
        if judged.peer.boot_id == boot_id():
            return expires_mono_ms - self._now.mono_ms
        return expires_at - self._now.utc_ms

    def dead_workers(self) -> tuple[str, ...]:
        """The names of those that were found dead among the holders so far."""
        return tuple(one.peer.name for one in self._judged.values() if one.is_dead)


def _because(orphaned: Orphaned | None, judged: Judged | None, left_ms: int | None) -> str:
    if judged is None or left_ms is None:
        return "nobody holds it"
    if orphaned is Orphaned.LEASE_RAN_OUT:
        return f"its lease ran out {-left_ms / 1000:.1f} s ago"
    said = f"worker {judged.peer.name} (pid {judged.peer.pid}): {judged.judgement.because}"
    return said if orphaned else f"{said}, and its lease has {left_ms / 1000:.0f} s left"
