"""Real workers stopped past their leases: the worker, its store process, a handler's process."""

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from outlast_lab.experiment import Broken, Finding, Plan
from outlast_lab.experiments.chaos.targets import Target, keep_others_out
from outlast_lab.experiments.zombie.side_by_side import SideBySide
from outlast_lab.judge.foreign_reader import foreign_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.record.history import read_history
from outlast_lab.stage.actors import (
    PATIENCE_SECONDS,
    Actor,
    ActorRaised,
    Company,
    NoAnswer,
    stopped,
    store_process_of,
)
from outlast_lab.stage.handlers import await_sign, leave_sign
from outlast_lab.stage.process_table import has_ended

LEASE_SECONDS = 1.0
# A task that nobody gets so long after its lease ran out is stuck, also on a busy machine.
STUCK_SECONDS = 20.0
_LOOK_SECONDS = 0.02

KINDS = {
    "hold": "a handler in a thread",
    "hold_async": "a handler on a loop",
    "hold_apart": "a handler in its own process",
}
WORKER, STORE_PROCESS, BOTH, HANDLER = (
    "worker",
    "store process",
    "worker and store process",
    "handler",
)
HELD, COMPLETED = "held", "completed"


class Case(NamedTuple):
    """Who is stopped, what it was at, and what another made of the task meanwhile."""

    kind: str
    who: str
    end: str

    def __str__(self) -> str:
        """By this it is repeated."""
        if self.who == HANDLER:
            return f"{KINDS[self.kind]}: {self.who} stopped, nobody else gets its task"
        return f"{KINDS[self.kind]}: {self.who} stopped, its task {self.end} by another"


CASES = (
    *(
        Case(kind, who, end)
        for kind in KINDS
        for who in (WORKER, STORE_PROCESS, BOTH)
        for end in (HELD, COMPLETED)
    ),
    Case("hold_apart", HANDLER, HELD),
)


@dataclass(slots=True)
class Scene:
    """A store, a real worker on it, an heir, and a reader that uses none of our code."""

    folder: Path
    company: Company
    worker: Actor = field(init=False)
    heir: Actor = field(init=False)
    reader: Actor = field(init=False)

    def enter(self) -> None:
        """Everybody is there, and only the heir opens the store yet."""
        (self.folder / "signs").mkdir()
        self.worker, self.heir, self.reader = (self.company.actor() for _ in range(3))
        record = str(self.folder / "heir.jsonl")
        self.heir.ask("opens", str(self.path), "heir", record, {}, None)

    @property
    def path(self) -> Path:
        """The store."""
        return self.folder / "work.db"

    @property
    def signs(self) -> Path:
        """Where handlers and director speak."""
        return self.folder / "signs"

    def begins(self, kind: str) -> int:
        """The worker is at work on the task; the process its handler runs in."""
        self.heir.ask("does", "enqueue", "t", {"signs": str(self.signs)}, kind)
        settings = {"lease_seconds": LEASE_SECONDS}
        self.worker.tell("works", str(self.path), "frozen", settings, {"concurrency": 2})
        is_over = self.worker.has_answered
        return int(await_sign(self.signs, "begun t 1", PATIENCE_SECONDS, is_over))

    def taken_over(self, kind: str) -> int:
        """The number of the heir's lease, once the stopped one's has run out."""
        until = time.monotonic() + STUCK_SECONDS
        while time.monotonic() < until:
            leases = self.heir.ask("hands", "claim", {"kinds": [kind], "lease": "1h"})
            if leases:
                return int(leases[0][0])
            time.sleep(_LOOK_SECONDS)
        raise Broken(f"the task of a stopped worker was stuck for {STUCK_SECONDS:g} s")

    def close(self) -> None:
        """Nobody is left."""
        for name in ("worker", "heir", "reader"):
            if hasattr(self, name):
                getattr(self, name).close()


def play(
    cases: Sequence[Case], plan: Plan, company: Company, played: Counter[str]
) -> Iterator[Finding]:
    """Play cases, some at once, and at least one of them; yields what they find."""
    return SideBySide("workers", plan, company, played).play(cases, _objections)


def _objections(case: Case, folder: Path, company: Company) -> list[str]:
    scene = Scene(folder, company)
    try:
        scene.enter()
        _play(scene, case)
        history, stored = read_history(folder), foreign_stored(scene.path)
        return [str(one) for one in violations(history, stored)]
    except (Broken, NoAnswer, ActorRaised, TimeoutError) as error:
        return [str(error)]
    finally:
        scene.close()


def _play(scene: Scene, case: Case) -> None:
    handler_pid = scene.begins(case.kind)
    if case.who == HANDLER:
        _handler_stopped(scene, case, handler_pid)
        return
    pids = {
        WORKER: lambda: [scene.worker.pid],
        STORE_PROCESS: lambda: [store_process_of(scene.worker.pid)],
        BOTH: lambda: [scene.worker.pid, store_process_of(scene.worker.pid)],
    }[case.who]()
    with _stopped_between_writes(scene, pids):
        number = scene.taken_over(case.kind)
        if case.end == COMPLETED:
            _is_done(scene.heir.ask("writes", "complete", number, "the heir's result"))
        scene.reader.ask("changes", str(scene.path))
    said = _writes_of(scene, handler_pid)
    if said is not None and set(said.values()) != {"LeaseLost"}:
        raise Broken(f"the writes of a handler whose worker was stopped: {said}")
    _ends(scene)
    for table, row in scene.reader.ask("changes", str(scene.path)):
        # That it has left is noted in its row and in the run of its opening; what was refused, and
        # how often it found the store busy, is counted.
        is_its_own = table in ("workers", "recovery_runs") and repr(scene.worker.pid) in row
        is_its_own = is_its_own or table == "counters"
        if not is_its_own:
            raise Broken(f"a worker that came back changed {table}: {row}")
    if case.end == HELD:
        _is_done(scene.heir.ask("writes", "complete", number, "the heir's result"))
    if scene.heir.ask("looks", "t")["result"] != "the heir's result":
        raise Broken("the result is not that of the present holder")


@contextmanager
def _stopped_between_writes(scene: Scene, pids: Sequence[int]) -> Iterator[None]:
    """Stopped inside a write they would stand in the heir's way; other cases are about that."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        with stopped(*pids):
            if not keep_others_out(scene.path, [Target(pid, -1) for pid in pids]):
                yield
                return
    raise Broken("it was always found inside a write")


def _handler_stopped(scene: Scene, case: Case, handler_pid: int) -> None:
    """Its worker lives and renews: a stopped handler is slow, and nobody else's."""
    with stopped(handler_pid):
        until = time.monotonic() + 2 * LEASE_SECONDS
        while time.monotonic() < until:
            leases = scene.heir.ask("hands", "claim", {"kinds": [case.kind]})
            if leases:
                raise Broken(f"the task of a worker that lives was handed out: {leases}")
            time.sleep(_LOOK_SECONDS)
    said = _writes_of(scene, handler_pid)
    if said is None or set(said.values()) != {"accepted"}:
        raise Broken(f"the writes of a handler that was stopped for a while: {said}")
    _ends(scene)
    seen: dict[str, Any] = scene.heir.ask("looks", "t")
    if (seen["status"], seen["attempt"]) != ("completed", 1):
        raise Broken(f"the task of a handler that was stopped for a while is {seen}")


def _writes_of(scene: Scene, handler_pid: int) -> dict[str, str] | None:
    """What the handler's writes were answered; None if it was ended before it could try."""
    leave_sign(scene.signs, "go t 1")
    sign = scene.signs / "wrote t 1"
    until = time.monotonic() + PATIENCE_SECONDS
    while not sign.exists():
        if handler_pid != scene.worker.pid and has_ended(handler_pid):
            return None
        if time.monotonic() > until or (scene.worker.has_answered() and not sign.exists()):
            raise Broken("a handler came back and did not try to write")
        time.sleep(_LOOK_SECONDS)
    said: dict[str, str] = json.loads(sign.read_text(encoding="utf-8"))
    return said


def _ends(scene: Scene) -> None:
    with suppress(NoAnswer):
        scene.worker.send_signal(signal.SIGTERM)
    scene.worker.answer()


def _is_done(said: list[Any]) -> None:
    if said != ["done", True]:
        raise Broken(f"the present holder could not complete the task: {said}")
