"""What recovery would do, told and not done: each running task, the decision on it, and why."""

from collections.abc import Iterator

from outlast.clock import Instant
from outlast.domain.lifecycle import Cause, RecoveryAction, Status, decide
from outlast.domain.orphans import Judgement, Liveness, Orphaned, judge_task
from outlast.domain.recovery import Decision
from outlast.host import kernel
from outlast.store.ops import expiry, loss_causes
from outlast.store.ops.loss_causes import Evidence
from outlast.store.ops.orphans import listened_to
from outlast.store.ops.settle import Standing
from outlast.store.records import RecoveryPolicy
from outlast.store.sqlite.presence.peers import Judged, Peer, judge
from outlast.store.sqlite.readers import Readers
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.transaction import Row, Values

PAGE = 1000

_STANDING = slice(0, len(Standing._fields))
_PEER = slice(_STANDING.stop + 2, _STANDING.stop + 2 + len(Peer._fields))
_SPARED = "recovery leaves this kind alone"
_NO_EVIDENCE = Evidence(None, None, None)


class Planner:
    """Judges each process once, and each running task by the one rule."""

    def __init__(
        self, readers: Readers, folder: SideFolder, own: str, now: Instant, policy: RecoveryPolicy
    ) -> None:
        self._readers = readers
        self._folder = folder
        self._own = own
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
            seq, mono_ms = rows[-1][0], rows[-1][_STANDING.stop + 1]
            after |= {"after_seq": seq, "after_mono_ms": -1 if mono_ms is None else mono_ms}

    def _page(self, after: Values) -> list[Row]:
        return self._readers.read("planning", lambda tx: tx.rows("running_tasks", after))

    def _decision(self, row: Row) -> Decision:
        standing = Standing._make(row[_STANDING])
        expires_at, expires_mono_ms = row[_STANDING.stop : _STANDING.stop + 2]
        judged = self._holder(row)
        left_ms = self._left_ms(judged, expires_at, expires_mono_ms)
        orphaned = judge_task(None if judged is None else judged.judgement, left_ms)
        because = _because(orphaned, judged, left_ms)
        action = self._policy.action_for(standing.kind)
        if orphaned is None or action is RecoveryAction.NONE:
            reason = "held" if orphaned is None else "skipped"
            because = because if orphaned is None else f"{because}; {_SPARED}"
            return Decision(
                standing.id, standing.kind, standing.worker, orphaned, because, action,
                Status.RUNNING.value, reason,
            )  # fmt: skip
        cause = self._cause(orphaned, standing, judged)
        transition = decide(standing.situation, cause)
        return Decision(
            standing.id, standing.kind, standing.worker, orphaned, because, action,
            transition.to.value, transition.reason,
        )  # fmt: skip

    def _cause(self, orphaned: Orphaned, standing: Standing, judged: Judged | None) -> Cause:
        if orphaned is Orphaned.LEASE_RAN_OUT:
            return expiry.cause(standing, self._policy)
        if orphaned is Orphaned.NO_HOLDER or judged is None:
            return loss_causes.nobodys(standing, self._policy)
        return loss_causes.loss(standing, judged, _NO_EVIDENCE, self._policy)

    def _holder(self, row: Row) -> Judged | None:
        if row[_PEER.start] is None:
            return None
        peer = Peer(*row[_PEER])
        if peer.incarnation not in self._judged:
            patience = self._policy.patience
            judged = judge(peer, self._folder, self._now, patience)
            found = listened_to(self._readers, judged, self._now, patience)
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
        if judged.peer.boot_id == kernel.boot_id():
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
