"""What becomes of a zombie's task while it stands still: every way another can take over."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast_lab.stage.acting import SharedClock
from outlast_lab.stage.actors import Actor, Company, fresh

LEASE = "10s"
LONG_LEASE = "1d"
PAST_THE_LEASE_SECONDS = 60.0
# Others look sooner than they usually would whether the write lock is stuck. Nothing is flushed in
# the background, so that a stop meets the zombie where the case says. No detector looks on:
# it would declare dead whom the end of a case kills, which the record does not know.
SETTINGS: dict[str, Any] = {
    "stall_seconds": 0.05,
    "flush_pages": 1_000_000,
    "detection_interval_seconds": 0,
}
IMPATIENT = {**SETTINGS, "write_timeout_seconds": 0.3}


@dataclass(slots=True)
class Stage:
    """A store, the zombie, its heirs, a reader that uses none of our code, and their one clock."""

    folder: Path
    company: Company
    clock: SharedClock = field(init=False)
    zombie: Actor = field(init=False)
    heir: Actor = field(init=False)
    namesake: Actor = field(init=False)
    impatient: Actor = field(init=False)
    reader: Actor = field(init=False)
    _actors: list[Actor] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Everybody opens the store."""
        fresh(self.folder)
        self.clock = SharedClock.make(self.folder / "clock")
        try:
            self.zombie = self.opens("zombie", "zombie")
            self.heir = self.opens("heir", "heir")
            self.namesake = self.opens("zombie", "namesake")
            self.impatient = self.opens("impatient", "impatient", IMPATIENT)
            self.reader = self._enters()
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> Path:
        """The store."""
        return self.folder / "work.db"

    def opens(self, worker: str, record: str, settings: dict[str, Any] = SETTINGS) -> Actor:
        """A new process on the store."""
        actor = self._enters()
        file = str(self.folder / f"{record}.jsonl")
        clock = str(self.folder / "clock")
        outcome = actor.ask("opens", str(self.path), worker, file, settings, clock)
        if outcome[0] != "done":
            raise RuntimeError(f"{worker} could not open the store: {outcome[1]}")
        return actor

    def _enters(self) -> Actor:
        actor = self.company.actor()
        self._actors.append(actor)
        return actor

    def does(self, verb: str, *arguments: Any, **options: Any) -> None:
        """The heir does something that has to succeed."""
        outcome, value = self.heir.ask("does", verb, *arguments, **options)
        if outcome != "done":
            raise RuntimeError(f"the heir's {verb}: {value}")

    def claims(self, actor: Actor, task_id: str, verb: str = "claim") -> int:
        """The number of a long lease on a task that is waiting, or was left by its holder."""
        leases = actor.ask("hands", verb, {"queue": task_id, "lease": LONG_LEASE})
        if [lease[1] for lease in leases] != [task_id]:
            raise NotHandedOut(f"{task_id} was not handed out after its lease ran out: {leases}")
        return int(leases[0][0])

    def ends(self, actor: Actor, task_id: str, verb: str, *arguments: Any, **options: Any) -> None:
        """An heir claims the task and gives it an end."""
        number = self.claims(actor, task_id)
        outcome, value = actor.ask("writes", verb, number, *arguments, **options)
        if (outcome, value) != ("done", True):
            raise NotHandedOut(f"the heir's {verb} of {task_id}: {outcome} {value}")

    def close(self) -> None:
        """Nobody is left on the store."""
        for actor in self._actors:
            actor.close()


class NotHandedOut(Exception):
    """The task of a stopped holder did not become anybody else's: it is stuck."""


# Who holds the task in the end, if anybody does: the actor and the number of the lease.
Holder = tuple[Actor, int] | None


def _held(stage: Stage, task_id: str) -> Holder:
    return stage.heir, stage.claims(stage.heir, task_id)


def _prefetched(stage: Stage, task_id: str) -> Holder:
    return stage.heir, stage.claims(stage.heir, task_id, "prefetch")


def _held_by_a_namesake(stage: Stage, task_id: str) -> Holder:
    return stage.namesake, stage.claims(stage.namesake, task_id)


def _held_by_itself(stage: Stage, task_id: str) -> Holder:
    stage.zombie.resume()
    return stage.zombie, stage.claims(stage.zombie, task_id)


def _completed_by_itself(stage: Stage, task_id: str) -> None:
    stage.zombie.resume()
    stage.ends(stage.zombie, task_id, "complete", "the other result")


def _completed(stage: Stage, task_id: str) -> None:
    stage.ends(stage.heir, task_id, "complete", "the heir's result")


def _completed_alike(stage: Stage, task_id: str) -> None:
    stage.ends(stage.heir, task_id, "complete", "the zombie's result")


def _completed_by_a_namesake(stage: Stage, task_id: str) -> None:
    stage.ends(stage.namesake, task_id, "complete", "the namesake's result")


def _failed(stage: Stage, task_id: str) -> None:
    stage.ends(stage.heir, task_id, "fail", "the heir's error", retry=False)


def _waiting_for_its_retry(stage: Stage, task_id: str) -> None:
    stage.ends(stage.heir, task_id, "fail", "the heir's error")


def _released(stage: Stage, task_id: str) -> None:
    stage.ends(stage.heir, task_id, "release")


def _parked(stage: Stage, task_id: str) -> None:
    stage.ends(stage.heir, task_id, "park", "approval")


def _put_back(stage: Stage, task_id: str) -> None:
    stage.does("heal")


def _put_back_by_the_detector(stage: Stage, task_id: str) -> None:
    stage.does("detect")


def _recovered(stage: Stage, task_id: str) -> None:
    stage.does("recover")


def _reclaimed(stage: Stage, task_id: str) -> None:
    stage.does("reclaim_stale", PAST_THE_LEASE_SECONDS / 2)


def _reclaimed_and_held(stage: Stage, task_id: str) -> Holder:
    _reclaimed(stage, task_id)
    return _held(stage, task_id)


def _cancelled(stage: Stage, task_id: str) -> None:
    stage.does("cancel", task_id)


def _failed_by_an_operator(stage: Stage, task_id: str) -> None:
    stage.does("fail_task", task_id, "the operator's word")


def _retried(stage: Stage, task_id: str) -> None:
    _failed(stage, task_id)
    stage.does("retry", task_id)


def _taken(stage: Stage, task_id: str) -> None:
    stage.does("heal")
    stage.does("take", 1, queue=task_id)


def _enqueued_anew(stage: Stage, task_id: str) -> None:
    _taken(stage, task_id)
    stage.does("enqueue", task_id, queue=task_id)


def _held_anew(stage: Stage, task_id: str) -> Holder:
    _enqueued_anew(stage, task_id)
    return stage.heir, stage.claims(stage.heir, task_id)


def _held_anew_by_itself(stage: Stage, task_id: str) -> Holder:
    _enqueued_anew(stage, task_id)
    return _held_by_itself(stage, task_id)


def _left_alone(stage: Stage, task_id: str) -> None:
    """The lease runs out and is given to nobody else: it still counts."""


MEANWHILE: dict[str, Callable[[Stage, str], Holder]] = {
    "it was taken over by another": _held,
    "it was prefetched by another": _prefetched,
    "it was taken over by a namesake": _held_by_a_namesake,
    "the zombie itself claimed it anew": _held_by_itself,
    "the zombie itself completed it anew": _completed_by_itself,
    "completed by another": _completed,
    "completed by another with the same result": _completed_alike,
    "completed by a namesake": _completed_by_a_namesake,
    "failed by another": _failed,
    "another's failure that is to be retried": _waiting_for_its_retry,
    "released by another": _released,
    "parked by another": _parked,
    "put back by healing": _put_back,
    "put back by the detector": _put_back_by_the_detector,
    "put back by a recovery": _recovered,
    "reclaimed by hand": _reclaimed,
    "reclaimed by hand and held by another": _reclaimed_and_held,
    "cancelled": _cancelled,
    "failed by an operator": _failed_by_an_operator,
    "failed and retried as a clone": _retried,
    "taken": _taken,
    "taken and enqueued anew under its id": _enqueued_anew,
    "taken, enqueued anew under its id and held": _held_anew,
    "taken, enqueued anew under its id and held by itself": _held_anew_by_itself,
    "its lease ran out and nobody took it": _left_alone,
}
NEEDS_THE_ZOMBIE = frozenset(name for name in MEANWHILE if "itself" in name)
STILL_ITS_OWN = frozenset(name for name in MEANWHILE if "nobody took it" in name)
ENQUEUED_ANEW = frozenset(name for name in MEANWHILE if "anew under" in name)
