"""What the tests of healing share: real processes that hold tasks, and a host that is not ours."""

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from outlast import WorkerInfo
from outlast.testing import ManualClock
from tests.store.hand import Hand
from tests.support.children import Child

ELSEWHERE = "a boot of another machine"


class Holder(Child):
    """A process that opens the store, and then does one thing after the other as it is told.

    Its clock begins where the test's does and moves only when it is told.
    """

    def __init__(self, database: Path, worker: str = "w", **settings: Any) -> None:
        super().__init__(_does_as_told, database, worker, settings)
        assert self.hear() == "open"

    def __enter__(self) -> "Holder":
        return self

    def asks(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """What a call answered; the name of the error if it raised one."""
        self.say([verb, list(arguments), options])
        return self.hear()

    def claims(self, limit: int = 1, **options: Any) -> list[str]:
        """The ids of the tasks that it holds from now on, besides others."""
        found: list[str] = self.asks("claim", limit=limit, **options)
        return found


def _does_as_told(path: str, worker: str, settings: "dict[str, Any]") -> None:
    from typing import Any

    from outlast import Outlast, OutlastError, Settings
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    clock = ManualClock()
    # Whoever is held here does nothing unasked.
    given = Settings(**{"detection_interval_seconds": 0} | settings)
    app = Outlast(path, settings=given, clock=clock).open()
    leases: dict[str, Any] = {}

    def does(verb: str, arguments: list[Any], options: dict[str, Any]) -> Any:
        if verb in ("claim", "prefetch"):
            made = getattr(app, verb)(worker, **options)
            leases.update({one.task_id: one for one in made})
            return [one.task_id for one in made]
        if verb == "checkpoint":
            return leases[arguments[0]].checkpoint(*arguments[1:]).sequence_number
        if verb in ("complete", "renew", "start"):
            return getattr(leases[arguments[0]], verb)(*arguments[1:], **options)
        if verb in ("advance", "step_utc"):
            return getattr(clock, verb)(*arguments)
        if verb == "heartbeat":
            arguments.insert(0, worker)
        return getattr(app, verb)(*arguments, **options)

    say("open")
    while True:
        try:
            answer = does(*hear())
        except OutlastError as error:
            answer = type(error).__name__
        say(answer)


@contextmanager
def crashed_holder(database: Path, ids: list[str], worker: str = "w") -> Iterator[int]:
    """A process that was killed with these tasks in its hands; its pid."""
    with Holder(database, worker) as holder:
        assert sorted(holder.claims(len(ids), lease="1h")) == sorted(ids)
        pid = holder.pid
        holder.kill()
        yield pid


def moves_to_another_host(database: Path, pid: int) -> None:
    """From here it looks as if that process ran on a machine whose lock files we cannot see."""
    with closing(Hand(database)) as hand:
        found = hand.rows("SELECT DISTINCT lock_file FROM workers WHERE pid = ?", pid)
        assert hand.run(
            "UPDATE workers SET boot_id = ?, host = 'elsewhere' WHERE pid = ?", ELSEWHERE, pid
        )
    for (name,) in found:
        os.unlink(Path(f"{database}-outlast") / "workers" / name)


def events(database: Path, kind: str = "worker.dead") -> list[dict[str, Any]]:
    """The events of one kind, with the worker they are about."""
    with closing(Hand(database)) as hand:
        rows = hand.rows(
            "SELECT worker_id, incarnation, at, data FROM events WHERE kind = ? ORDER BY pos", kind
        )
    return [
        {"worker": worker, "incarnation": incarnation, "at": at} | json.loads(data)
        for worker, incarnation, at, data in rows
    ]


def add_lock(hand: Hand, name: str, clock: ManualClock, seconds: float, pid: int | None) -> None:
    """A named lock that is held for so long from now on, by the worker with that pid."""
    now, ms = clock.now(), round(seconds * 1000)
    hand.run(
        "INSERT INTO locks (name, holder, worker_id, token, acquired_at, expires_at,"
        " expires_mono_ms) VALUES (?, (SELECT min(seq) FROM workers WHERE pid = ?), 'w', 1,"
        " ?, ?, ?)",
        name, pid, now.utc_ms, now.utc_ms + ms, now.mono_ms + ms,
    )  # fmt: skip


def lock_names(hand: Hand) -> list[str]:
    """The named locks that there are."""
    return [name for (name,) in hand.rows("SELECT name FROM locks ORDER BY name")]


def of_pid(found: list[WorkerInfo], pid: int) -> WorkerInfo:
    """The one worker of a process."""
    (one,) = [each for each in found if each.pid == pid]
    return one


class Seconds:
    """The detector's own clock: how much time it thinks has passed between its looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
