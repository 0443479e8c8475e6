"""An operator who cannot sit still: heals, recovers, flushes, pauses, cancels, retries, forces."""

import random
from collections.abc import Callable
from typing import Any

from outlast.errors import OutlastError
from outlast_lab.acts import Operator
from outlast_lab.locks import Locker, some_lock
from outlast_lab.telling import Listening
from outlast_lab.witness import Witness

_FEW = 50
_TOGETHER = 4


class Keeper:
    """Does something to the store as a whole, or to some task that is there."""

    def __init__(self, witness: Witness, dice: random.Random) -> None:
        self._witness = witness
        self._dice = dice
        self._by_name = Operator(witness)

    def act(self) -> None:
        """One thing, by the dice."""
        witness, dice, by_name = self._witness, self._dice, self._by_name
        on_the_whole: list[Callable[[], Any]] = [
            witness.heal,
            witness.recover,
            witness.detect,
            lambda: witness.reclaim_stale(1),
            lambda: witness.flush(dice.choice(["passive", "full", "restart", "truncate"])),
            lambda: witness.pause("side"),
            lambda: witness.unpause("side"),
            lambda: by_name.pause("side"),
            lambda: by_name.unpause("side"),
            lambda: by_name.mark_dead(self._some_worker()),
            lambda: by_name.force_many(self._some_force(), self._some_tasks()),
            lambda: by_name.force_many("pending", status="pending", queue="side"),
            by_name.approve,
            witness.heartbeat,
            lambda: Locker(witness).free(some_lock(dice)),
            lambda: Listening(witness, "reader").hear(dice.choice([0.1, 1])),
        ]
        on_a_task: list[Callable[[str], Any]] = [
            witness.cancel,
            witness.retry,
            witness.resolve,
            witness.park_task,
            witness.unpark_task,
            lambda task_id: witness.fail_task(task_id, "by an operator"),
            lambda task_id: by_name.force(task_id, self._some_force()),
            by_name.cancel,
            by_name.retry,
            by_name.park,
            by_name.unpark,
            by_name.approve,
        ]
        if dice.random() < 0.6:
            dice.choice(on_the_whole)()
        else:
            task_id = self._some_task()
            if task_id is not None:
                dice.choice(on_a_task)(task_id)

    def _some_task(self) -> str | None:
        """The id of a task, whosever it is."""
        found = self._some_tasks(1)
        return found[0] if found else None

    def _some_tasks(self, count: int = _TOGETHER) -> list[str]:
        """The ids of some tasks of one status; looking leaves no trace."""
        status = self._dice.choice(["pending", "running", "completed", "failed"])
        try:
            found = self._witness.app.tasks(status, limit=_FEW)
        except OutlastError:
            return []
        return [one.id for one in self._dice.sample(found, min(count, len(found)))]

    def _some_force(self) -> str:
        return self._dice.choice(["retry", "fail", "pending"])

    def _some_worker(self) -> str | None:
        """The incarnation of a process that may live or be gone."""
        try:
            found = self._witness.app.workers(limit=_FEW)
        except OutlastError:
            return None
        return self._dice.choice(found).incarnation if found else None
