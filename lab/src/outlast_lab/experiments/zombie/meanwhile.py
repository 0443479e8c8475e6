"""What becomes of a zombie's task while it stands still: every way another can take over."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast_lab.experiment import Broken
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
            raise Broken(f"{task_id} was not handed out after its lease ran out: {leases}")
        return int(leases[0][0])

    def ends(self, actor: Actor, task_id: str, verb: str, *arguments: Any, **options: Any) -> None:
        """An heir claims the task and gives it an end."""
        number = self.claims(actor, task_id)
        outcome, value = actor.ask("writes", verb, number, *arguments, **options)
        if (outcome, value) != ("done", True):
            raise Broken(f"the heir's {verb} of {task_id}: {outcome} {value}")

    def close(self) -> None:
        """Nobody is left on the store."""
        for actor in self._actors:
            actor.close()


# Who holds the task in the end, if anybody does: the actor and the number of the lease.
Holder = tuple[Actor, int] | None
Meanwhile = Callable[[Stage, str], Holder]

HEIR, NAMESAKE, ITSELF = "heir", "namesake", "zombie"


def _actor(stage: Stage, who: str) -> Actor:
    actor: Actor = getattr(stage, who)
    if who == ITSELF:
        actor.resume()
    return actor


def _held(who: str, verb: str = "claim") -> Meanwhile:
    def act(stage: Stage, task_id: str) -> Holder:
        actor = _actor(stage, who)
        return actor, stage.claims(actor, task_id, verb)

    return act


def _ended(who: str, verb: str, *arguments: Any, **options: Any) -> Meanwhile:
    return lambda stage, task_id: stage.ends(
        _actor(stage, who), task_id, verb, *arguments, **options
    )


def _done(verb: str, *arguments: Any) -> Meanwhile:
    return lambda stage, task_id: stage.does(verb, *arguments)


def _done_to_it(verb: str, *arguments: Any) -> Meanwhile:
    return lambda stage, task_id: stage.does(verb, task_id, *arguments)


def _one_after_another(*acts: Meanwhile) -> Meanwhile:
    def act(stage: Stage, task_id: str) -> Holder:
        holders = [one(stage, task_id) for one in acts]
        return holders[-1]

    return act


def _taken(stage: Stage, task_id: str) -> None:
    stage.does("heal")
    stage.does("take", 1, queue=task_id)


def _enqueued_anew(stage: Stage, task_id: str) -> None:
    _taken(stage, task_id)
    stage.does("enqueue", task_id, queue=task_id)


def _left_alone(stage: Stage, task_id: str) -> None:
    """The lease runs out and is given to nobody else: it still counts."""


_FAILED = _ended(HEIR, "fail", "the heir's error", retry=False)
_RECLAIMED = _done("reclaim_stale", PAST_THE_LEASE_SECONDS / 2)

MEANWHILE: dict[str, Meanwhile] = {
    "it was taken over by another": _held(HEIR),
    "it was prefetched by another": _held(HEIR, "prefetch"),
    "it was taken over by a namesake": _held(NAMESAKE),
    "the zombie itself claimed it anew": _held(ITSELF),
    "the zombie itself completed it anew": _ended(ITSELF, "complete", "the other result"),
    "completed by another": _ended(HEIR, "complete", "the heir's result"),
    "completed by another with the same result": _ended(HEIR, "complete", "the zombie's result"),
    "completed by a namesake": _ended(NAMESAKE, "complete", "the namesake's result"),
    "failed by another": _FAILED,
    "another's failure that is to be retried": _ended(HEIR, "fail", "the heir's error"),
    "released by another": _ended(HEIR, "release"),
    "parked by another": _ended(HEIR, "park", "approval"),
    "put back by healing": _done("heal"),
    "put back by the detector": _done("detect"),
    "put back by a recovery": _done("recover"),
    "reclaimed by hand": _RECLAIMED,
    "reclaimed by hand and held by another": _one_after_another(_RECLAIMED, _held(HEIR)),
    "cancelled": _done_to_it("cancel"),
    "failed by an operator": _done_to_it("fail_task", "the operator's word"),
    "failed and retried as a clone": _one_after_another(_FAILED, _done_to_it("retry")),
    "taken": _taken,
    "taken and enqueued anew under its id": _enqueued_anew,
    "taken, enqueued anew under its id and held": _one_after_another(_enqueued_anew, _held(HEIR)),
    "taken, enqueued anew under its id and held by itself": _one_after_another(
        _enqueued_anew, _held(ITSELF)
    ),
    "its lease ran out and nobody took it": _left_alone,
}
NEEDS_THE_ZOMBIE = frozenset(name for name in MEANWHILE if "itself" in name)
STILL_ITS_OWN = frozenset(name for name in MEANWHILE if "nobody took it" in name)
ENQUEUED_ANEW = frozenset(name for name in MEANWHILE if "anew under" in name)
