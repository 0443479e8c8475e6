"""Threads that put work in and take work out by hand; one of the programs of a round of chaos."""

import random
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from outlast_lab.locks import Locker
from outlast_lab.witness import Witness

if TYPE_CHECKING:
    from outlast.app.lease import Lease

# Long enough for work that is settled, short enough for work that is forgotten to come back.
LEASE_SECONDS = (0.5, 3)
QUEUES = ["default", "side"]
# What the real worker has handlers for, and what only these hands take.
KINDS = ("by_thread", "by_thread", "by_loop", "by_loop", "by_process", "by_hand", "by_hand")
ENDINGS = {"complete": 60, "fail": 10, "release": 12, "park": 3, "forget": 6, "many": 9}


def result_of(worker: str, token: int) -> str:
    """The result with which a worker completes a task, so that the store tells whose it took."""
    return f"{worker}/{token}"


def payload_by(dice: random.Random) -> dict[str, Any]:
    """What a handler of the real worker is told to do; others do not look at it."""
    way = dice.choices(["return", "raise", "give back", "checkpoint", "die"], [80, 8, 4, 7, 1])[0]
    return {"seconds": dice.choice([0.0, 0.0, 0.01, 0.05, 0.3]), "way": way}


class Hand:
    """One thread's dealings with the store, by its own dice."""

    def __init__(self, witness: Witness, dice: random.Random) -> None:
        self._witness = witness
        self._dice = dice
        self._numbers = count()

    def act(self) -> None:
        """Put something in, take something out, or ask for a lock."""
        lot = self._dice.random()
        if lot < 0.4:
            self.produce()
        elif lot < 0.9:
            self.consume()
        else:
            Locker(self._witness).take_a_turn(self._dice)

    def produce(self) -> None:
        """Store a task or a few."""
        dice, witness = self._dice, self._witness
        options: dict[str, Any] = {"kind": dice.choice(KINDS), "priority": dice.randrange(3)}
        options["queue"] = dice.choices(QUEUES, [5, 1])[0]
        if dice.random() < 0.1:
            options["delay"] = 0.2
        if dice.random() < 0.1:
            options["group"] = f"group {dice.randrange(3)}"
        if dice.random() < 0.6:
            task_id = self._new_id()
            if dice.random() < 0.2:
                options["idempotency_key"] = f"key of {task_id}"
            witness.enqueue(task_id, payload_by(dice), **options)
        else:
            ids = [self._new_id() for _ in range(dice.randint(2, 5))]
            witness.enqueue_many(ids, [payload_by(dice) for _ in ids], **options)

    def _new_id(self) -> str:
        return f"{self._witness.worker}:{next(self._numbers)}"

    def consume(self) -> None:
        """Take some tasks, and bring each of them to one of the ends there are."""
        dice, witness = self._dice, self._witness
        lease_seconds = LEASE_SECONDS[dice.random() < 0.8]
        options: dict[str, Any] = {"limit": dice.randint(1, 4), "lease": lease_seconds}
        options["queue"] = QUEUES
        if dice.random() < 0.7:
            options["kinds"] = ["by_hand"]
        is_ahead = dice.random() < 0.2
        leases = witness.prefetch(**options) if is_ahead else witness.claim(**options)
        many = []
        for lease in leases:
            if is_ahead:
                witness.start(lease)
            if dice.random() < 0.2:
                witness.renew(lease)
            if dice.random() < 0.1:
                witness.checkpoint(lease, "iteration_end", {"n": dice.randrange(100)})
            ending = dice.choices(list(ENDINGS), list(ENDINGS.values()))[0]
            if ending == "many" or (ending == "forget" and lease_seconds > 1):
                many.append(lease)
            elif ending != "forget":
                self._end(lease, ending)
        if many:
            witness.complete_many(
                [(lease, result_of(witness.worker, lease.token)) for lease in many]
            )

    def _end(self, lease: "Lease", ending: str) -> None:
        witness = self._witness
        endings: dict[str, Callable[[], Any]] = {
            "complete": lambda: witness.complete(lease, result_of(witness.worker, lease.token)),
            "fail": lambda: witness.fail(lease, "out of luck", delay=0),
            "release": lambda: witness.release(lease),
            "park": lambda: witness.park(lease, "event"),
        }
        endings[ending]()
