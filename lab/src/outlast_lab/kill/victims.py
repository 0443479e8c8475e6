"""The processes that are killed at random moments: producers, workers by hand, openers, flushers.

Each keeps a record of what it asked and what was acknowledged, and goes on until it is killed.
What it does is drawn from a seed; when it dies is not its business.
"""

import os
import random
import signal
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from outlast.app.app import Outlast
from outlast.errors import PermanentError
from outlast.settings import Settings
from outlast_lab.history import LineFile
from outlast_lab.kill.speech import PATIENCE_SECONDS, READY, die, say
from outlast_lab.witness import Witness

TASKS = 60
MODES = ("passive", "full", "restart", "truncate")


class Victim(NamedTuple):
    """What was there before, what is killed, how long after its start it is killed at the latest,
    and how many of them are killed one after the other on the same store."""

    prepare: Callable[[str, str, float], None]
    act: Callable[[str, str, float], None]
    window_seconds: float
    lives: int = 1


def _witness(app: Outlast, record: str, name: str = "") -> Witness:
    worker = f"{Path(record).stem}{name}"
    return Witness(app, worker, LineFile(record).write)


def _ready() -> None:
    say([READY, os.getpid()])


# What there is before


def nothing(path: str, record: str, seed: float) -> None:
    """The first life makes the store."""


def stocked(path: str, record: str, seed: float) -> None:
    """Some tasks wait, and the store was left in good order."""
    witness = _witness(Outlast(path), record)
    ids = [f"t-{n}" for n in range(TASKS)]
    witness.enqueue_many(ids, [{"n": n, "text": "x" * (n * 60)} for n in range(TASKS)])
    witness.close()


def orphaned(path: str, record: str, seed: float) -> None:
    """Two processes died that held most of the tasks, some of them at work, some of them ahead."""
    stocked(path, record, seed)
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE_SECONDS)
        _hold(path, record, " gone")
        os.write(said, b"!")
        threading.Event().wait()
    os.read(heard, 1)
    _hold(path, record, " gone too")
    os.kill(pid, signal.SIGKILL)
    die()


def _hold(path: str, record: str, name: str) -> None:
    witness = _witness(Outlast(path), record, name)
    witness.claim(limit=TASKS // 4)
    for lease in witness.prefetch(limit=TASKS // 5)[::2]:
        witness.start(lease)


# Who is killed


def produces(path: str, record: str, seed: float) -> None:
    """Two threads that store tasks, singly and in bulk, small and large, some by a key."""
    _ready()
    app = Outlast(path)

    def produce(name: str) -> None:
        witness, chance = _witness(app, record, name), random.Random(f"{seed}{name}")
        for n in count():
            task_id = f"{witness.worker}-{n}"
            if chance.random() < 0.3:
                many = [f"{task_id}-{k}" for k in range(chance.randint(1, 40))]
                witness.enqueue_many(many, [{"n": k} for k in range(len(many))])
            else:
                key = {"idempotency_key": task_id} if chance.random() < 0.3 else {}
                witness.enqueue(task_id, "y" * chance.choice((0, 10, 1000, 5000)), **key)

    other = threading.Thread(target=produce, args=(" b",), daemon=True)
    other.start()
    produce(" a")


def works(path: str, record: str, seed: float) -> None:
    """Claims tasks and does with them all that can be done."""
    _ready()
    witness, chance = _witness(Outlast(path), record), random.Random(seed)
    for n in count():
        leases = witness.claim(limit=chance.randint(1, 4))
        if not leases:
            witness.enqueue(f"{witness.worker}-{n}", {"n": n})
        elif chance.random() < 0.3:
            witness.complete_many([(lease, "z" * chance.choice((1, 3000))) for lease in leases])
        else:
            for lease in leases:
                _work_on(witness, lease, chance)


def _work_on(witness: Witness, lease: Any, chance: random.Random) -> None:
    if chance.random() < 0.5:
        witness.renew(lease, stage="halfway")
        witness.checkpoint(lease, "tool_executed", {"at": chance.random()})
    ends: list[Callable[[], Any]] = [
        lambda: witness.complete(lease, {"by": witness.worker}),
        lambda: witness.complete(lease, "y" * 5000),
        lambda: witness.fail(lease, "try again"),
        lambda: witness.fail(lease, PermanentError("never")),
        lambda: witness.release(lease),
        lambda: witness.park(lease, "approval"),
        lambda: witness.cancel(lease.task_id),
    ]
    chance.choice(ends)()


def flushes(path: str, record: str, seed: float) -> None:
    """Writes a little and flushes the log, in every mode, over and over."""
    _ready()
    witness, chance = _witness(Outlast(path), record), random.Random(seed)
    for n in count():
        task_id = f"{witness.worker}-{n}"
        witness.enqueue(task_id, "z" * chance.choice((10, 3000, 40_000)), priority=n)
        for lease in witness.claim():
            witness.complete(lease, "w" * chance.choice((10, 4000)))
        witness.flush(chance.choice(MODES))


def opens(path: str, record: str, seed: float) -> None:
    """Makes or migrates the store, stores a task, and leaves politely; over and over."""
    _ready()
    chance = random.Random(seed)
    for n in count():
        witness = _witness(Outlast(path), record, f" {n}")
        if chance.random() < 0.5:
            witness.migrate()
        witness.enqueue(f"{witness.worker}-0", {"n": n})
        witness.close()


def recovers(path: str, record: str, seed: float) -> None:
    """Opens a store that the dead left behind, and puts back what they held in small steps."""
    _ready()
    witness = _witness(Outlast(path, settings=Settings(heal_batch=1)), record)
    witness.open()
    threading.Event().wait()


VICTIMS = {
    "producer": Victim(stocked, produces, 0.06),
    "first producer": Victim(nothing, produces, 0.06),
    "worker by hand": Victim(stocked, works, 0.08),
    "flush": Victim(stocked, flushes, 0.06),
    "opening": Victim(nothing, opens, 0.06, lives=2),
    "recovery": Victim(orphaned, recovers, 0.05, lives=3),
}

ACTS: dict[str, Callable[..., None]] = {
    f"{moment} {name}": act
    for name, victim in VICTIMS.items()
    for moment, act in (("before", victim.prepare), ("victim", victim.act))
}
