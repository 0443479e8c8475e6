"""Following the queue: every change that is seen must be one that somebody under way may make.

Where calls are woven into each other nobody can say beforehand what comes of them. But between
two looks at the store one actor ran, at most one transaction was committed, and it is known which
calls were in it. So each change has its author, and for each there is a rule: who may make it, in
which situation, and what it does to the counters. What nothing explains is a violation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outlast.testing.clock import ManualClock
from outlast_lab.experiments.model.effects import EFFECTS, LOST, Effect
from outlast_lab.experiments.model.observed import Holder, Look, Move, Ongoing, Row
from outlast_lab.experiments.model.records import FINAL, Rules
from outlast_lab.experiments.model.script import Broken

WORKER, USER, RECOVERY = "worker", "user", "system/recovery"
HANDING_OUT = ("claim", "prefetch")
LEAVING = ("close", "leave")
LAST = 1 << 60
HOLD = "hold"


_BY_LEASE = {
    "completed": ("complete", "complete_many"),
    "retry": ("fail",),
    "permanent_error": ("fail",),
    "released": ("release",),
    "waiting": ("park",),
}


@dataclass
class _Scene:
    """One slice: what there was, what is said to have happened, and who may have done it."""

    before: dict[int, Row]
    look: Look
    paused_before: frozenset[str]
    calls: Sequence[Ongoing]
    runner: Ongoing | None


def is_lost_by_recovery(move: Move) -> bool:
    """Whether a task was put back that somebody had begun, or may have."""
    is_lost = move.reason.startswith(("crash", "lease_expired", "taken"))
    return is_lost and move.actor != WORKER and move.to_status == "pending"


class Following:
    """Holds each change against the calls that were under way in its slice."""

    def __init__(self, rules: Rules, clock: ManualClock) -> None:
        self._rules = rules
        self._clock = clock
        self._tasks: dict[int, Row] = {}
        self._paused: frozenset[str] = frozenset()
        self.holders: dict[tuple[str, int], Holder] = {}
        self._effects = EFFECTS | {
            f"{why}_{word}": effect
            for why in ("crash", "lease_expired", "taken")
            for word, effect in LOST.values()
        }

    def row(self, task_id: str) -> Row | None:
        """A task as it was last seen."""
        return next((row for row in self._tasks.values() if row.id == task_id), None)

    def rows(self) -> Iterable[Row]:
        """All tasks as they were last seen."""
        return self._tasks.values()

    def is_current(self, lease: tuple[str, int]) -> bool:
        """Whether a lease is out."""
        row = self.row(lease[0])
        return row is not None and row.status == "running" and row.token == lease[1]

    def see(self, look: Look, calls: Sequence[Ongoing]) -> None:
        """Explain all that changed, or raise Broken.

        The first of the calls is that of the actor which ran; the others may have been taken
        along. In a group they are done in the order in which they lined up.
        """
        runner = calls[0] if calls else None
        calls = sorted(calls, key=lambda one: LAST if one.queued_at is None else one.queued_at)
        scene = _Scene(dict(self._tasks), look, self._paused, calls, runner)
        standing = dict(self._tasks)
        for seq, row in look.tasks.items():
            if seq not in standing:
                standing[seq] = self._made(row, calls)
            standing[seq] = self._progressed(standing[seq], row, calls)
        for move in look.moves:
            if move.task_seq not in standing:
                raise Broken(f"a task that nobody knows was moved: {move}")
            standing[move.task_seq] = self._moved(standing[move.task_seq], move, scene)
        for seq, row in standing.items():
            if seq in look.tasks:
                self._agree(row, look.tasks[seq], calls)
            else:
                self._taken(row, calls)
        self._tasks, self._paused = look.tasks, look.paused

    # Tasks come and go

    def _made(self, row: Row, calls: Sequence[Ongoing]) -> Row:
        for call in calls:
            is_clone = call.verb == "retry" and row.retry_of in call.task_ids
            is_new = call.verb in ("enqueue", "enqueue_many") and row.id in call.task_ids
            if is_clone or (is_new and row.retry_of is None):
                call.made.add(row.id)
                break
        else:
            raise Broken(f"{row.id} is there and nobody was enqueuing it")
        return row._replace(
            status="pending", attempt=0, retries=0, recoveries=0, crashes_in_row=0, token=0,
            worker=None, ends=None, progress=0,
        )  # fmt: skip

    def _progressed(self, row: Row, found: Row, calls: Sequence[Ongoing]) -> Row:
        """Crashes are counted anew from a record of progress, which only the holder makes."""
        if found.progress == row.progress:
            return row
        if not any(call.verb == "checkpoint" and row.lease in call.leases for call in calls):
            raise Broken(f"{row.id} has a checkpoint of token {row.token}, and nobody made it")
        return row._replace(crashes_in_row=0, progress=found.progress)

    def _taken(self, row: Row, calls: Sequence[Ongoing]) -> None:
        takers = [call for call in calls if call.verb == "take"]
        if not takers or row.status != "pending" or not self._is_due(row, takers[0]):
            raise Broken(f"{row.id} has vanished; it was {row.status}")
        takers[0].taken.add(row.id)

    def _is_due(self, row: Row, call: Ongoing) -> bool:
        now = max(call.asked_utc, self._clock.now().utc_ms)
        is_over = row.parked == "delay" and row.not_before is not None and row.not_before <= now
        return row.parked is None or is_over

    # Moves

    def _moved(self, row: Row, move: Move, scene: _Scene) -> Row:
        """The task after a move that may be made here, and now."""
        what = f"{row.id} was moved from {move.from_status} to {move.to_status} ({move.reason})"
        if (row.status, row.status in FINAL) != (move.from_status, False):
            raise Broken(f"{what}, but it was {row.status}")
        effect = self._effect(row, move, scene, what)
        after = row._replace(
            status=effect.end,
            attempt=row.attempt + effect.attempt,
            retries=row.retries + effect.retries,
            recoveries=row.recoveries + effect.recoveries,
            crashes_in_row=row.crashes_in_row + effect.recoveries,
            token=row.token + effect.token,
            parked=HOLD if self._rules.is_held and is_lost_by_recovery(move) else None,
        )
        if (move.to_status, move.attempt, move.token) != (after.status, after.attempt, after.token):
            raise Broken(
                f"{what} with attempt {move.attempt} and token {move.token}, which must be"
                f" {after.status} with attempt {after.attempt} and token {after.token}"
            )
        return after

    def _effect(self, row: Row, move: Move, scene: _Scene, what: str) -> Effect:
        if move.reason == "claimed":
            return self._claimed(row, move, scene, what)
        is_taken = move.reason.startswith("taken") or move.reason == "max_retries_exceeded"
        if move.actor == USER and not is_taken:
            return self._decided(row, move, scene, what)
        if move.reason == "max_retries_exceeded":
            return self._spent(row, move, scene, what)
        if move.actor == WORKER and move.reason in _BY_LEASE and self._by_lease(row, move, scene):
            return self._effects[move.reason]
        if move.reason not in self._effects:
            raise Broken(f"{what}, which this queue must not do")
        self._check_action(row, move, what)
        if move.actor == WORKER:
            self._check_leaving(row, move, scene, what)
        else:
            self._check_recovery(row, move, scene, what)
        return self._effects[move.reason]

    def _check_action(self, row: Row, move: Move, what: str) -> None:
        """Who is driven out by an error knows no kinds; what is left alone may be taken by hand."""
        action = self._rules.action_for(row.kind) if move.actor != WORKER else self._rules.action
        wanted = LOST.get(action, LOST["retry"])[0]
        is_loss = move.reason.startswith(("crash_", "lease_", "taken_"))
        if is_loss and not move.reason.endswith(wanted):
            raise Broken(f"{what} and what is lost of kind {row.kind} is for {action}")
        if is_loss and move.to_status == "pending" and self._is_lost_too_often(row):
            raise Broken(f"{what} although its budget is used up: {row}")

    def _is_lost_too_often(self, row: Row) -> bool:
        return self._rules.is_spent(row.recoveries, row.crashes_in_row, row.max_recoveries)

    def _claimed(self, row: Row, move: Move, scene: _Scene, what: str) -> Effect:
        for call in scene.calls:
            if call.verb in HANDING_OUT and call.worker == move.worker and self._fits(row, call):
                break
        else:
            raise Broken(f"{what} by {move.worker}, who did not ask for it")
        if not self._is_due(row, call):
            raise Broken(f"{what} while it was parked ({row.parked})")
        if row.queue in scene.paused_before & scene.look.paused:
            raise Broken(f"{what} from a queue that is paused")
        lease = (row.id, move.token)
        call.gained.add(lease)
        length_ms = call.args.get("lease_ms") or self._rules.lease_ms
        begun = call.verb == "claim"
        self.holders[lease] = Holder(call.worker, call.opening, length_ms, begun)
        return EFFECTS["claimed"]

    @staticmethod
    def _fits(row: Row, call: Ongoing) -> bool:
        kinds, group = call.args.get("kinds"), call.args.get("group")
        return (
            row.queue in call.args["queues"]
            and (kinds is None or row.kind in kinds)
            and group in (None, row.group)
        )

    def _decided(self, row: Row, move: Move, scene: _Scene, what: str) -> Effect:
        verbs = {"cancelled": "cancel", "failed_by_operator": "fail_task"}
        for call in scene.calls:
            if call.verb == verbs.get(move.reason) and row.id in call.task_ids:
                call.settled.add((row.id, row.token))
                return Effect(row.status, "cancelled" if call.verb == "cancel" else "failed")
        raise Broken(f"{what} and no operator said so")

    def _spent(self, row: Row, move: Move, scene: _Scene, what: str) -> Effect:
        """A budget is used up: of failures, or of crashes. A claim alone uses up none."""
        if row.status == "pending":
            is_so = False
        elif move.actor == WORKER and self._by_lease(row, move._replace(reason="retry"), scene):
            is_so = row.retries >= row.max_retries
        elif move.actor == WORKER:
            self._check_leaving(row, move._replace(reason="crash"), scene, what)
            is_so = self._is_lost_too_often(row)
        else:
            is_dead = self.holders[row.lease].opening.life.is_dead
            reason = "crash" if is_dead and not self._ran_out(row) else "lease_expired"
            self._check_recovery(row, move._replace(reason=reason), scene, what)
            is_so = self._is_lost_too_often(row)
        if not is_so:
            raise Broken(f"{what} although its budget is not used up: {row}")
        return Effect(row.status, "failed")

    def _by_lease(self, row: Row, move: Move, scene: _Scene) -> bool:
        """Whether a call that names this very lease, the one that is out, did it."""
        for call in scene.calls:
            if call.verb in _BY_LEASE[move.reason] and row.lease in call.leases:
                call.settled.add(row.lease)
                return True
        return False

    def _check_leaving(self, row: Row, move: Move, scene: _Scene, what: str) -> None:
        """An object is closed, which gives back what it handed out; or finds itself closed."""
        holder = self.holders[row.lease]
        in_error = move.reason.startswith("crash")
        for call in scene.calls:
            if call.opening is holder.opening:
                leaves = call.verb == "leave" or (call.verb == "close" and not in_error)
                gives_back = call.worker == holder.worker and call.verb in HANDING_OUT
                if leaves or (gives_back and not in_error):
                    return
        raise Broken(
            f"{what} in the name of {holder.worker}, and nobody who held token {row.token} did it"
        )

    def _check_recovery(self, row: Row, move: Move, scene: _Scene, what: str) -> None:
        """Only what the dead hold, what ran out, and what a leaving process still holds."""
        holder = self.holders[row.lease]
        is_dead = holder.opening.life.is_dead
        by_hand = [call for call in scene.calls if call.verb == "reclaim_stale"]
        if self._rules.action_for(row.kind) == "none" and not by_hand and move.reason != "released":
            raise Broken(f"{what}, which is to be left alone")
        if any(call.args["force"] for call in by_hand) and move.reason != "never_started":
            allowed = True
        elif move.reason.startswith("lease_expired"):
            allowed = self._ran_out(row)
        elif move.reason.startswith("taken"):
            allowed = False
        elif move.reason == "never_started":
            allowed = is_dead and not holder.begun
        elif move.reason == "released":
            allowed = any(
                call.verb in LEAVING and call.opening.life is holder.opening.life
                for call in scene.calls
            )
        else:
            allowed = is_dead and holder.begun
        if not allowed:
            state = "is dead" if is_dead else "lives"
            left_ms = (row.ends or 0) - self._clock.now().mono_ms
            raise Broken(f"{what}, but {holder.worker} {state} and has {left_ms} ms left")
        if scene.runner is not None:
            scene.runner.healed += 1
            scene.runner.opening.healed += scene.runner.opens

    def _ran_out(self, row: Row) -> bool:
        return row.ends is not None and row.ends <= self._clock.now().mono_ms

    # What is left when all moves are accounted for

    def _agree(self, expected: Row, found: Row, calls: Sequence[Ongoing]) -> None:
        """The row is as its moves say, and the rest changed only if somebody may change it."""
        counted = ("status", "attempt", "retries", "recoveries", "crashes_in_row", "token")
        for name in counted:
            wanted, got = getattr(expected, name), getattr(found, name)
            if wanted != got:
                raise Broken(f"{found.id} has {name} {got}, which its moves make {wanted}")
        if found.status == "running":
            self._agree_on_lease(expected, found, calls)
        elif found.status == "pending" and expected.status == found.status:
            self._agree_on_parking(expected, found, calls)

    def _agree_on_lease(self, expected: Row, found: Row, calls: Sequence[Ongoing]) -> None:
        holder = self.holders[found.lease]
        if found.worker != holder.worker:
            raise Broken(f"{found.id} is held by {found.worker}, but {holder.worker} claimed it")
        may_change = any(
            found.lease in (call.gained if call.verb in HANDING_OUT else call.leases)
            for call in calls
            if call.verb in (*HANDING_OUT, "renew")
        )
        fresh = self._clock.now().mono_ms + holder.length_ms
        if found.ends not in ((expected.ends, fresh) if may_change else (expected.ends,)):
            raise Broken(f"the lease on {found.id} ends at {found.ends}, not at {expected.ends}")

    def _agree_on_parking(self, expected: Row, found: Row, calls: Sequence[Ongoing]) -> None:
        if expected.parking == found.parking:
            return
        was = self._tasks.get(found.seq)
        is_held = expected.parked == HOLD
        if was is None or (was.status != "pending" and not is_held):
            return
        promoted = expected.parked == "delay" and found.parked is None
        for call in calls:
            if call.verb in ("park_task", "unpark_task") and found.id in call.task_ids:
                return
            if promoted and call.verb in (*HANDING_OUT, "take") and self._is_due(expected, call):
                return
        raise Broken(f"{found.id} was {expected.parked} and is {found.parked}, by nobody's hand")
