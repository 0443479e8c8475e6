"""An operator who cannot sit still: heals, recovers, flushes, pauses, cancels, retries."""

import random
from collections.abc import Callable
from typing import Any

from outlast.errors import OutlastError
from outlast.lab.locks import Locker, some_lock
from outlast.lab.telling import Listening
from outlast.lab.witness import Witness

_FEW = 50


class Keeper:
    """Does something to the store as a whole, or to some task that is there."""

    def __init__(self, witness: Witness, dice: random.Random) -> None:
        self._witness = witness
        self._dice = dice

    def act(self) -> None:
        """One thing, by the dice."""
        witness, dice = self._witness, self._dice
        on_the_whole: list[Callable[[], Any]] = [
            witness.heal,
            witness.recover,
            witness.detect,
            lambda: witness.reclaim_stale(1),
            lambda: witness.flush(dice.choice(["passive", "full", "restart", "truncate"])),
            lambda: witness.pause("side"),
            lambda: witness.unpause("side"),
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
        ]
        if dice.random() < 0.6:
            dice.choice(on_the_whole)()
        else:
            task_id = self._some_task()
            if task_id is not None:
                dice.choice(on_a_task)(task_id)

    def _some_task(self) -> str | None:
        """The id of a task, whosever it is; looking leaves no trace."""
        status = self._dice.choice(["pending", "running", "completed", "failed"])
        try:
            found = self._witness.app.tasks(status, limit=_FEW)
        except OutlastError:
            return None
        return self._dice.choice(found).id if found else None
