"""Writers that are stopped while the queue waits for them: named within a second, and harmless.

A process is stopped inside its transaction, at the write gate, or while it makes the store ready.
Whoever wants to write meanwhile logs who stands in the way, waits, and writes when that one goes
on; whoever gives up before is told by whom it was kept; whoever reads is not hindered.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from outlast_lab.experiment import Broken, Finding, Plan
from outlast_lab.experiments.zombie.delay import Stopwatch
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
    fresh,
)

# The promise, beyond what the same takes when nobody is stopped; how long this machine lets a
# process wait for a processor is not counted. Other delays of a machine do not come each time that
# a case is played.
SOON_SECONDS = 1.0
MOST_LATE = 3
OPEN_TIMEOUT_SECONDS = 1.0
# Who opens waits for so long to write what it finds, and as long once more to take its leave.
OPEN_WRITE_SECONDS = OPEN_TIMEOUT_SECONDS / 2
_LOOK_SECONDS = 0.005

BEGUN, WRITTEN, COMMITTED = "*.begun", "*.written", "*.committed"
_WHERE = {
    BEGUN: "inside the transaction of",
    WRITTEN: "before the commit of",
    COMMITTED: "at the gate after the commit of",
}


class Verb(NamedTuple):
    """What the stopped process is at: a verb of its app, or of the lease it holds."""

    name: str
    arguments: tuple[Any, ...] = ()
    is_by_lease: bool = False


_VERBS = {
    "enqueue": Verb("enqueue", ("stopped",)),
    "enqueue_many": Verb("enqueue_many", (["stopped-1", "stopped-2"], [1, 2])),
    "claim": Verb("claim"),
    "heal": Verb("heal"),
    "heartbeat": Verb("heartbeat", (["held"],)),
    "cancel": Verb("cancel", ("waiting",)),
    "pause": Verb("pause", ("default",)),
    "renew": Verb("renew", (), True),
    "checkpoint": Verb("checkpoint", ("tool_executed", {"n": 1}), True),
    "complete": Verb("complete", ("its result",), True),
    "fail": Verb("fail", ("its error",), True),
    "release": Verb("release", (), True),
}
# heal() writes only what it finds, and here there is nothing.
_WRITE_NOTHING = frozenset({"heal"})
_FLUSHES = ("flush.begun", "flush.counted", "flush.done")
_OPENING = {
    "migrate.statement": "in the middle of a migration",
    "migrate.written": "before the commit of a migration",
    "migrate.committed": "after the commit of a migration",
    "flush.begun": "with the store to itself, before it flushes",
    "flush.done": "with the store to itself, after it flushed",
}


class Case(NamedTuple):
    """One process, stopped at one point."""

    verb: str
    point: str

    def __str__(self) -> str:
        """By this it is repeated."""
        if self.verb == "open":
            return f"stopped {_OPENING[self.point]}"
        where = _WHERE.get(self.point, f"at {self.point} of")
        return f"stopped {where} {self.verb}"


CASES = (
    *(Case(verb, point) for verb in _VERBS if verb not in _WRITE_NOTHING for point in _WHERE),
    *(Case("flush", point) for point in _FLUSHES),
    *(Case("open", point) for point in _OPENING),
)


class Late(Broken):
    """What was promised came, and not in time."""


def play(
    cases: Sequence[Case], plan: Plan, company: Company, played: Counter[str]
) -> Iterator[Finding]:
    """Play cases, some at once, and at least one of them; yields what they find."""
    return SideBySide("writers", plan, company, played).play(cases, _objections)


def _objections(case: Case, folder: Path, company: Company) -> list[str]:
    """What is broken; being late is so if it is late every time."""
    words: list[str] = []
    for _ in range(MOST_LATE):
        try:
            return _objections_once(case, fresh(folder), company)
        except Late as error:
            words = [str(error)]
    return words


def _objections_once(case: Case, folder: Path, company: Company) -> list[str]:
    try:
        if case.verb == "open":
            _play_opening(case, folder, company)
        else:
            _play_writing(case, folder, company)
        history, stored = read_history(folder), foreign_stored(folder / "work.db")
        return [str(one) for one in violations(history, stored)]
    except Late:
        raise
    except (Broken, NoAnswer, ActorRaised) as error:
        return [str(error)]


def _open(actor: Actor, folder: Path, worker: str, **settings: Any) -> Any:
    """What an actor is answered when it opens the store."""
    arguments = [str(folder / "work.db"), worker, str(folder / f"{worker}.jsonl"), settings, None]
    return actor.ask("opens", *arguments)


def _play_writing(case: Case, folder: Path, company: Company) -> None:
    writer, other = company.actor(), company.actor()
    log = folder / "other.log"
    try:
        _open(writer, folder, "writer")
        _open(other, folder, "other")
        other.ask("logs", str(log))
        _done(other.ask("does", "enqueue", "held"), "enqueue")
        writer.ask("hands", "claim", {"lease": "1h"})
        with Stopwatch(other.pid) as usual:
            _done(other.ask("does", "enqueue", "waiting"), "enqueue")
        _, usual_seconds = _reads(other, company, folder)
        writer.ask("stops", case.point)
        _tell(writer, case)
        writer.await_stop()
        seen, took_seconds = _reads(other, company, folder)
        _reads_on(seen, took_seconds, usual_seconds, is_committed=case.point == COMMITTED)
        newcomer, said = _timed_opening(company, folder, "newcomer")
        if said[0] != "done" and f"process {writer.pid}" not in said[1]:
            raise Broken(f"a newcomer was refused and not told by whom: {said[1]}")
        newcomer.close()
        other.tell("does", "enqueue", "meanwhile")
        _is_named(other, writer.pid, log, usual.took_seconds)
        writer.resume()
        _done(writer.answer(), case.verb)
        _done(other.answer(), "enqueue that waited for the stopped one")
    finally:
        # Whoever outlived the writer would declare it dead, which the judge grants to nobody here.
        other.close()
        writer.close()


def _tell(writer: Actor, case: Case) -> None:
    if case.verb == "flush":
        writer.tell("does", "flush", "truncate")
        return
    verb = _VERBS[case.verb]
    if verb.is_by_lease:
        writer.tell("writes", verb.name, 0, *verb.arguments)
    else:
        writer.tell("does", verb.name, *verb.arguments)


def _done(said: list[Any], what: str) -> None:
    if said[0] != "done":
        raise Broken(f"{what} was answered {said[0]} {said[1]}")


def _is_named(other: Actor, pid: int, log: Path, usual_seconds: float) -> None:
    """Somebody who waits for a process that stands still says so, and waits on."""
    named = f"process {pid} (stopped)"
    until = time.monotonic() + PATIENCE_SECONDS / 2
    with Stopwatch(other.pid) as watch:
        while named not in log.read_text(encoding="utf-8"):
            if other.has_answered(_LOOK_SECONDS):
                raise Broken(f"a write beside a stopped writer was answered {other.answer()}")
            if time.monotonic() > until:
                raise Broken(f"the stopped writer {pid} was not named")
    # Nothing is deducted: it looks at the clock many times, and only the last look may be delayed.
    if watch.took_seconds > SOON_SECONDS + usual_seconds:
        raise Late(f"it took {watch.took_seconds:.1f} s to say who stands in the way")


def _reads(other: Actor, company: Company, folder: Path) -> tuple[list[str], float]:
    """What is seen of a task by who has the store open and by a visitor, and how long it took."""
    visitor = company.actor()
    try:
        with Stopwatch(other.pid) as watch:
            seen = [other.ask("looks", "waiting")["status"]]
        with Stopwatch(visitor.pid) as visit:
            seen.append(visitor.ask("opens_to_look", str(folder / "work.db"), "waiting"))
    finally:
        visitor.close()
    return seen, watch.own_seconds + visit.own_seconds


def _reads_on(
    seen: list[str], took_seconds: float, usual_seconds: float, is_committed: bool
) -> None:
    if not is_committed and seen != ["pending", "pending"]:
        raise Broken(f"reads beside a stopped writer saw what is not committed: {seen}")
    if took_seconds > SOON_SECONDS + usual_seconds:
        raise Late(f"reads took {took_seconds:.1f} s beside a stopped writer")


def _timed_opening(company: Company, folder: Path, worker: str) -> tuple[Actor, list[Any]]:
    usual_seconds = _usual_opening_seconds(company, folder)
    newcomer = company.actor()
    with Stopwatch(newcomer.pid) as watch:
        said = _open(
            newcomer, folder, worker, open_timeout_seconds=OPEN_TIMEOUT_SECONDS,
            write_timeout_seconds=OPEN_WRITE_SECONDS,
        )  # fmt: skip
    if watch.own_seconds > SOON_SECONDS + OPEN_TIMEOUT_SECONDS + usual_seconds:
        raise Late(f"a newcomer waited {watch.own_seconds:.1f} s for its answer")
    return newcomer, said


def _usual_opening_seconds(company: Company, folder: Path) -> float:
    """How long it takes here to open a store of one's own, where nobody is stopped."""
    actor = company.actor()
    try:
        with Stopwatch(actor.pid) as watch:
            _done(_open(actor, fresh(folder / "elsewhere"), "usual"), "opening another store")
    finally:
        actor.close()
    return watch.own_seconds


def _play_opening(case: Case, folder: Path, company: Company) -> None:
    """Somebody who has the store to itself; the others learn who it is, and get in afterwards."""
    first = company.actor()
    try:
        first.ask("stops", case.point)
        path = str(folder / "work.db")
        first.tell("opens", path, "first", str(folder / "first.jsonl"), {}, None)
        first.await_stop()
        second, said = _timed_opening(company, folder, "second")
        if said[0] == "done" or f"process {first.pid}" not in said[1]:
            raise Broken(f"who opened a store that another has to itself was told {said}")
        first.resume()
        _done(first.answer(), "the stopped opening")
        _done(first.ask("does", "enqueue", "first"), "enqueue")
        _done(second.ask("does", "enqueue", "second"), "enqueue of who was refused before")
        second.close()
    finally:
        first.close()
