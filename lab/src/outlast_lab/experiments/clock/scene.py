"""A store and the processes on it, each in a world of its own; what they see is checked here."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast_lab.experiment import Broken
from outlast_lab.experiments.clock.worlds import World
from outlast_lab.record.history import KILLED, LineFile, host_seconds
from outlast_lab.stage.actors import Actor, Company

# What happens at once happens within this, also on a machine with much else to do.
SOON_SECONDS = 15.0
LOOK_SECONDS = 0.02

Companies = Callable[[World], Company]


@dataclass(slots=True)
class Scene:
    """One store; actors by the name of their worker."""

    folder: Path
    companies: Companies
    actors: dict[str, Actor] = field(default_factory=dict)
    _opened: int = 0

    @property
    def path(self) -> Path:
        """The store."""
        return self.folder / "work.db"

    def enters(self, worker: str, world: World, pid: int | None = None, **settings: Any) -> Actor:
        """A process of a world opens the store under a name."""
        self._opened += 1
        actor = self.companies(world).actor(pid)
        self.actors[worker] = actor
        record = str(self.folder / f"{self._opened} {worker}.jsonl")
        # A detector would declare dead whom the end of a script kills without a word on record.
        settings = {"detection_interval_seconds": 0} | settings
        done(actor.ask("opens", str(self.path), worker, record, settings, None), "opening")
        return actor

    def kills(self, worker: str) -> None:
        """A process dies, and the record says when."""
        self.falls_silent(worker)
        self.actors.pop(worker).kill()

    def falls_silent(self, worker: str) -> None:
        """From now on it may be taken for dead, though it lives."""
        file = LineFile(self.folder / "killed.jsonl")
        file.write([KILLED, worker, host_seconds()])
        file.close()

    def loses_lock_files(self) -> None:
        """Somebody removes the lock files of all workers that there are."""
        found = [*self.folder.glob("work.db*/workers/*")]
        if not found:
            raise Broken("no worker has a lock file")
        for path in found:
            path.unlink()

    def close(self) -> None:
        """Nobody is left."""
        for actor in self.actors.values():
            actor.close()


def done(said: list[Any], what: str) -> Any:
    """The value of an answer that has to be a good one."""
    if said[0] != "done":
        raise Broken(f"{what} was answered {said[0]} {said[1]}")
    return said[1]


def claims(actor: Actor, task_id: str, lease: Any = "5m", **options: Any) -> int:
    """The number of a lease on a task that has to be there to be had."""
    leases = actor.ask("hands", "claim", {"lease": lease, **options})
    if [one[1] for one in leases] != [task_id]:
        raise Broken(f"{task_id} was to be had, and this was handed out: {leases}")
    return int(leases[0][0])


def completes(actor: Actor, number: int, result: str = "its result") -> None:
    """A holder that lives can complete its task."""
    said = actor.ask("writes", "complete", number, result)
    if said != ["done", True]:
        raise Broken(f"a holder that lives could not complete its task: {said}")


def gets_nothing(actor: Actor, task_id: str) -> None:
    """A task that another holds is not to be had, and healing leaves it alone."""
    before = actor.ask("looks", task_id)
    done(actor.ask("does", "heal"), "heal")
    leases = actor.ask("hands", "claim", {})
    if leases:
        raise Broken(f"a live lease was taken: {leases}")
    after = actor.ask("looks", task_id)
    if after != before:
        raise Broken(f"the task of a holder that lives was {before} and is {after}")


def gets_at_once(actor: Actor, task_id: str, within_seconds: float = SOON_SECONDS) -> int:
    """An orphan is to be had by the first that asks."""
    asked_at = time.monotonic()
    number = claims(actor, task_id)
    took_seconds = time.monotonic() - asked_at
    if took_seconds > within_seconds:
        raise Broken(f"it took {took_seconds:.1f} s to get an orphan")
    return number


def seen_alive(actor: Actor, worker: str) -> None:
    """A worker that lives is seen to live, and not to have been silent for long."""
    seen = actor.ask("sees", worker)
    if seen.get("state") != "alive" or not 0 <= seen["silent_seconds"] < 120:
        raise Broken(f"the worker {worker} lives, and is seen as {seen}")
