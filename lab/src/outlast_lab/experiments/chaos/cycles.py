"""Crash cycles: processes start together on a store that was left by a crash, work, and all crash.

The next ones begin with what these left; now and then one is killed while it still recovers. In
the end somebody finishes all that is left, and the whole history is judged.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from outlast_lab.judge.foreign_reader import Stored, copied_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.judge.replay import FINAL
from outlast_lab.record.history import KILLED, LineFile, host_seconds, read_history
from outlast_lab.stage.actors import Actor, ActorRaised, Company, NoAnswer

TOGETHER = 4
TASKS_OF_A_CYCLE = 6

# Leases outlast the cycle, so that what comes back does so for a death; many small batches.
SETTINGS: dict[str, Any] = {
    "lease_seconds": 300,
    "heal_batch": 2,
    "detection_interval_seconds": 0.05,
    "synchronous": "normal",
    "max_recovery_attempts": 3,
}
_KILLED_WHILE_OPENING = 0.3
_LONGEST_OPENING_SECONDS = 0.04
_LONGEST_WORD_SECONDS = 0.01
_AT_ONCE = 100


class Cycles:
    """One store, crashed again and again."""

    def __init__(self, folder: Path, seed: str, company: Company) -> None:
        self.path = folder / "work.db"
        self._records = folder / "records"
        self._records.mkdir()
        self._company = company
        self._dice = random.Random(f"cycles {seed}")
        self._killed = LineFile(self._records / "killed.jsonl")
        self.kills = 0
        self.killed_while_opening = 0

    def play(self, count: int) -> Iterator[str]:
        """So many crashes of all, and an end; what was seen to go wrong."""
        try:
            for cycle in range(count):
                self._cycle(cycle)
            self._finish()
        except (NoAnswer, ActorRaised) as error:
            yield str(error)
        finally:
            self._killed.close()

    def _enters(self, name: str) -> Actor:
        """A process that is told to open the store, and not waited for."""
        actor = self._company.actor()
        record = str(self._records / f"{name}.jsonl")
        actor.tell("opens", str(self.path), name, record, SETTINGS, None)
        return actor

    def _cycle(self, cycle: int) -> None:
        dice = self._dice
        crowd = {f"c{cycle}.{n}": self._enters(f"c{cycle}.{n}") for n in range(TOGETHER)}
        if dice.random() < _KILLED_WHILE_OPENING:
            time.sleep(dice.random() * _LONGEST_OPENING_SECONDS)
            name = dice.choice(list(crowd))
            self.killed_while_opening += not crowd[name].has_answered()
            self._kill(name, crowd.pop(name))
        for actor in crowd.values():
            _done(actor.answer())
        ids = [f"t{cycle}.{n}" for n in range(TASKS_OF_A_CYCLE)]
        first = next(iter(crowd.values()))
        _done(first.ask("does", "enqueue_many", ids, list(range(len(ids)))))
        for actor in crowd.values():
            self._works(actor)
        time.sleep(dice.random() * _LONGEST_WORD_SECONDS)
        for name, actor in crowd.items():
            self._kill(name, actor)

    def _works(self, actor: Actor) -> None:
        """Takes some, ends some, and is in the middle of something when its end comes."""
        verb = self._dice.choice(("claim", "claim", "prefetch"))
        leases = actor.ask("hands", verb, {"limit": self._dice.randint(1, 4)})
        for number, *_ in leases:
            if self._dice.random() < 0.4:
                _done(actor.ask("writes", "complete", number, "done"))
        actor.tell("does", self._dice.choice(("heal", "recover", "detect", "flush")))

    def _kill(self, name: str, actor: Actor) -> None:
        """The moment is noted first: nothing that it held came free before."""
        self._killed.write([KILLED, name, host_seconds()])
        actor.close()
        self.kills += 1

    def _finish(self) -> None:
        last = self._enters("last")
        _done(last.answer())
        while leases := last.ask("hands", "claim", {"limit": _AT_ONCE}):
            for number, *_ in leases:
                _done(last.ask("writes", "complete", number, "at last"))
        _done(last.ask("does", "close"))
        last.close()

    def judged(self, counted: Counter[str]) -> list[str]:
        """The invariants, and whether everything came to its end."""
        history, stored = read_history(self._records), copied_stored(self.path)
        counted.update(
            {
                "kills": self.kills,
                "killed while they opened": self.killed_while_opening,
                "calls": len(history.calls),
                "tasks": len(stored.tasks),
                "recoveries on record": len(stored.runs or {}),
            }
        )
        return [*map(str, violations(history, stored)), *_left_over(stored)]


def _left_over(stored: Stored) -> Iterator[str]:
    for task in stored.tasks.values():
        if task.status not in FINAL:
            yield f"stuck: {task.id} is still {task.status}"
        lost = [move.reason for move in stored.moves[task.id] if "crash" in move.reason]
        if len(lost) > SETTINGS["max_recovery_attempts"]:
            yield f"counters: {task.id} was taken back {len(lost)} times"


def _done(said: list[Any]) -> None:
    if said[0] != "done":
        raise ActorRaised(f"what has to succeed was {said[0]}: {said[1]}")
