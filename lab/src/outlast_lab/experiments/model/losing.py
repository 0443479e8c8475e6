"""The part of the model that puts tasks back: of the dead, of leases that ran out, and by hand."""

from outlast_lab.experiments.model.records import Rules, Session, Task

RECOVERY, USER = "system/recovery", "user"


class Losing:
    """Tasks that somebody held and does not hold any more."""

    def __init__(self, rules: Rules, utc: int, mono: int) -> None:
        self.rules = rules
        self.utc = utc
        self.mono = mono
        self.tasks: list[Task] = []
        self.opening = (0, 0)
        """What the opening of whoever opened last put back, and failed."""

    def running(self) -> list[Task]:
        """The tasks in somebody's hands."""
        return [task for task in self.tasks if task.status == "running"]

    def heal(self) -> tuple[int, int]:
        """The tasks of the dead and of leases that ran out; how many are back, how many failed."""
        back = failed = 0
        for task in self.running():
            if self.is_spared(task):
                continue
            assert task.lease is not None
            dead = task.lease.session.incarnation.dead
            if not dead and task.lease.ends > self.mono:
                continue
            if dead and not task.lease.begun:
                self._put_back(task, RECOVERY, refund=True)
            else:
                if not dead:
                    task.note("error_boundary")
                self._lose(task, RECOVERY)
            failed += task.status == "failed"
            back += task.status == "pending"
        return back, failed

    def is_spared(self, task: Task) -> bool:
        """Whether recovery leaves it alone, for a person to look at."""
        return self.rules.action_for(task.kind) == "none"

    def reclaim(self, silent_ms: int, force: bool) -> int:
        """By hand: what was silent for so long, if its lease ran out or by force; how many.

        Whatever the policy says: who does this by hand has looked.
        """
        found = [task for task in self.running() if self._is_silent(task, silent_ms, force)]
        for task in found:
            task.note("error_boundary")
            self._lose(task, USER if force else RECOVERY)
        return len(found)

    def _is_silent(self, task: Task, silent_ms: int, force: bool) -> bool:
        assert task.lease is not None
        is_over = force or task.lease.ends <= self.mono
        return is_over and task.lease.heard <= self.utc - silent_ms

    def _lose(self, task: Task, actor: str) -> None:
        """By its kind. By hand a task may be taken that recovery leaves alone: as by default.

        Who is driven out by an error holds what recovery would leave alone, and nothing else.
        """
        action = self.rules.action_for(task.kind)
        spent = self.rules.is_spent(task.recoveries, task.crashes_in_row, task.max_recoveries)
        if action == "fail" or spent:
            self._move(task, "failed", actor)
            return
        task.recoveries += 1
        task.crashes_in_row += 1
        self._put_back(task, actor, refund=action == "pending")
        is_held = self.rules.is_held if actor != "worker" else action == "none"
        if is_held:
            task.parked = "hold"

    def _heal_before_claim(self, session: Session, force: bool) -> bool:
        last = session.incarnation.healed_at
        if not force and last is not None and self.mono - last < self.rules.heal_interval_ms:
            return False
        session.incarnation.healed_at = self.mono
        return self.heal()[0] > 0

    def _put_back(self, task: Task, actor: str, refund: bool = False, wait: int = 0) -> None:
        task.attempt -= refund
        self._move(task, "pending", actor)
        task.parked = "delay" if wait else None
        task.not_before = self.utc + wait if wait else None

    def _move(self, task: Task, status: str, actor: str) -> None:
        task.moves.append((task.status, status, actor, task.attempt, task.token))
        task.status, task.lease, task.parked = status, None, None
