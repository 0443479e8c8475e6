"""Sixty-four threads in each of eight processes on one store, some of them killed on the way."""

import json
import random
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from outlast import LeaseLost, Outlast
from tests.support.children import Child
from tests.support.foreign import assert_sound
from tests.support.history import (
    History,
    Leased,
    Move,
    Recorder,
    Stored,
    StoredTask,
    Wrote,
    read_history,
    read_stored,
    result_of,
    violations,
)

PROCESSES = 8
THREADS = 64
LOAD_SECONDS = 20
# Who is killed, after how many of its signs of life; it gives one about every second.
VICTIMS = {1: 2, 4: 4, 6: 6}
# Long enough for work that is settled, short enough for work that is forgotten to come back.
LEASE_SECONDS = (0.5, 30)


def work_until(stop: threading.Event, app: Outlast, recorder: Recorder, name: str) -> None:
    """One thread of the crowd: puts work in and takes work out, and notes what it was told."""
    dice = random.Random(name)
    try:
        while not stop.is_set():
            if dice.random() < 0.4:
                _produce(app, recorder, dice)
            else:
                _consume(app, recorder, dice)
    except Exception as error:
        recorder.surprised(error)


def _produce(app: Outlast, recorder: Recorder, dice: random.Random) -> None:
    priority = dice.randrange(3)
    if dice.random() < 0.5:
        recorder.enqueued([app.enqueue("work", priority=priority).id])
    else:
        recorder.enqueued(app.enqueue_many("work", range(3), priority=priority))


def _consume(app: Outlast, recorder: Recorder, dice: random.Random) -> None:
    asked_at = time.monotonic()
    lease = LEASE_SECONDS[dice.random() < 0.9]
    leases = app.claim(recorder.worker, limit=dice.randint(1, 4), lease=lease)
    recorder.leased(leases, asked_at)
    for one in leases:
        if dice.random() < 0.3:
            _write(recorder, one, "renew")
        verb = dice.choices(["complete", "fail", "release", "forget"], [70, 10, 15, 5])[0]
        if verb != "forget" or one.lease_ms > 1000:
            _write(recorder, one, "complete" if verb == "forget" else verb)


def _write(recorder: Recorder, lease: Any, verb: str) -> None:
    asked_at = time.monotonic()
    accepted: bool | None
    try:
        if verb == "renew":
            lease.renew()
            accepted = True
        elif verb == "complete":
            accepted = lease.complete(result_of(recorder.worker, lease.token))
        elif verb == "fail":
            accepted = lease.fail("out of luck", delay=0)
        else:
            accepted = lease.release()
    except LeaseLost:
        accepted = None
    recorder.wrote(lease, verb, accepted, asked_at)


def _works_in_the_crowd(path: str, folder: str, worker: str, threads: int) -> None:
    import logging
    import threading
    import time

    from outlast import Outlast
    from tests.crash.test_crowd import work_until
    from tests.support.childside import hear, say
    from tests.support.history import Recorder

    logging.disable()
    app, recorder, stop = Outlast(path).open(), Recorder(folder, worker), threading.Event()
    say("ready")
    until = hear()
    crowd = [
        threading.Thread(target=work_until, args=(stop, app, recorder, f"{worker}.{n}"))
        for n in range(threads)
    ]
    for one in crowd:
        one.start()
    while time.monotonic() < until:
        stop.wait(min(1, max(0, until - time.monotonic())))
        say("alive")
    stop.set()
    for one in crowd:
        one.join()
    recorder.leaving()
    app.close()


class Crowd:
    """The processes, each with one thread of ours that looks after it."""

    def __init__(self, stack: ExitStack, database: Path, folder: Path) -> None:
        self._stack = stack
        self._database = database
        self._folder = folder
        self.killed_at: dict[str, float] = {}
        self.errors: list[str] = []

    def start(self, worker: str) -> Child:
        child = Child(_works_in_the_crowd, self._database, self._folder, worker, THREADS)
        return self._stack.enter_context(child)

    def run(self) -> None:
        children = [self.start(f"p{n}") for n in range(PROCESSES)]
        for child in children:
            assert child.hear() == "ready"
        until = time.monotonic() + LOAD_SECONDS
        minders = [
            threading.Thread(target=self._mind, args=(n, child, until))
            for n, child in enumerate(children)
        ]
        for minder in minders:
            minder.start()
        for minder in minders:
            minder.join(120)
            assert not minder.is_alive(), "nobody may hang"

    def _mind(self, number: int, child: Child, until: float) -> None:
        """See one process through; a victim is killed amid its work and replaced by another."""
        try:
            child.say(until)
            if number in VICTIMS:
                for _ in range(VICTIMS[number]):
                    child.hear()
                self.killed_at[f"p{number}"] = time.monotonic()
                child.kill()
                child = self.start(f"p{number}again")
                assert child.hear() == "ready"
                child.say(until)
            child.hear_all()
            if child.wait() != 0:
                self.errors.append(child.error())
        except Exception as error:
            self.errors.append(f"process {number}: {error!r}")


def drain(database: Path, folder: Path) -> None:
    """Complete whatever is left, so that every task has come to its end."""
    recorder = Recorder(folder, "last")
    with Outlast(database) as app:
        while app.counts()["pending"] + app.counts()["running"]:
            asked_at = time.monotonic()
            leases = app.claim("last", limit=1000, wait=30)
            recorder.leased(leases, asked_at)
            asked_at = time.monotonic()
            results = [(one, result_of("last", one.token)) for one in leases]
            for one, accepted in zip(leases, app.complete_many(results), strict=True):
                recorder.wrote(one, "complete", accepted, asked_at)
        recorder.leaving()


@pytest.mark.timeout(300)
@pytest.mark.proves("CLM-01")
def test_a_crowd_of_threads_and_processes_loses_nothing_and_does_nothing_twice(
    database: Path, tmp_path: Path
) -> None:
    """Every lease, renewal and ending that was acknowledged, against the store's own account."""
    folder = tmp_path / "histories"
    folder.mkdir()
    Outlast(database).open().close()
    with ExitStack() as stack:
        crowd = Crowd(stack, database, folder)
        crowd.run()
        assert crowd.errors == []
    drain(database, folder)
    history, stored = read_history(folder), read_stored(database)
    history.killed_at = crowd.killed_at
    assert history.surprises == []
    assert violations(history, stored)[:5] == []
    assert {task.status for task in stored.tasks.values()} <= {"completed", "failed"}
    assert_it_was_a_crowd(history, stored)
    assert_sound(database)


def assert_it_was_a_crowd(history: History, stored: Stored) -> None:
    """Otherwise the rest proves little."""
    assert len(history.killed_at) == len(VICTIMS)
    assert len(history.enqueued) > 1000
    answers = Counter((one.verb, one.accepted) for one in history.writes)
    for verb in ("renew", "complete", "fail", "release"):
        assert answers[verb, True] > 50, answers
    endings = Counter(move.reason for moves in stored.moves.values() for move in moves)
    assert endings["crash_retry"] > 0, endings
    assert endings["lease_expired_retry"] > 0, endings
    holders = {one.worker for one in history.leases}
    assert len(holders) >= PROCESSES + len(VICTIMS)


def sound_history() -> tuple[History, Stored]:
    """A task that a failed, b let expire, c crashed with, d gave back by leaving, e completed."""
    held = [("a", 1, 1), ("b", 2, 2), ("c", 3, 3), ("d", 4, 4), ("e", 5, 4)]
    ends = {
        1: ("worker", "retry"),
        2: ("system/recovery", "lease_expired_retry"),
        3: ("system/recovery", "crash_retry"),
        4: ("worker", "released"),
        5: ("worker", "completed"),
    }
    history = History(
        enqueued=["t"],
        leases=[
            Leased(w, "t", token, n, 4000, 10.0 * token, 10.0 * token + 1) for w, token, n in held
        ],
        writes=[
            Wrote("a", "t", 1, "renew", True, 11.5, 11.6),
            Wrote("a", "t", 1, "fail", True, 12.0, 12.1),
            Wrote("b", "t", 2, "complete", None, 32.0, 32.1),
            Wrote("e", "t", 5, "complete", True, 52.0, 52.1),
            Wrote("e", "t", 5, "complete", False, 53.0, 53.1),
        ],
        killed_at={"c": 35.0},
        left_at={"d": 45.0},
    )
    stored = Stored({"t": StoredTask("completed", 5, json.dumps(result_of("e", 5)))})
    for worker, token, attempt in held:
        actor, reason = ends[token]
        to = "completed" if reason == "completed" else "pending"
        stored.moves["t"] += [
            Move("pending", "running", "worker", "claimed", attempt, token, worker),
            Move("running", to, actor, reason, attempt, token, worker),
        ]
    return history, stored


def test_a_sound_history_has_no_violations() -> None:
    assert violations(*sound_history()) == []


def _swap(rows: list[Any], n: int, **changes: Any) -> None:
    rows[n] = rows[n]._replace(**changes)


# Each breaks one promise in an otherwise sound history: h is told, m are the store's moves.
DOCTORED: dict[str, tuple[str, Any]] = {
    "an enqueued task is gone": ("lost", lambda h, s, m: h.enqueued.append("u")),
    "a completed task is still running": ("lost", lambda h, s, m: m.pop()),
    "a failure that was acknowledged was overruled": (
        "lost", lambda h, s, m: _swap(m, 1, actor="system/recovery", reason="crash_retry")),
    "a failure became a completion": ("lost", lambda h, s, m: _swap(m, 1, reason="completed")),
    "a lease was got that the store never gave": (
        "lost", lambda h, s, m: h.leases.append(Leased("f", "t", 9, 5, 4000, 60.0, 61.0))),
    "a lease was got with another attempt": ("lost", lambda h, s, m: _swap(h.leases, 0, attempt=7)),
    "the result is another's": (
        "lost",
        lambda h, s, m: s.tasks.update(t=s.tasks["t"]._replace(result='"b/2"'))),
    "two completions stand in the store": (
        "twice", lambda h, s, m: _swap(m, 3, to_status="completed", reason="completed")),
    "two were told that they completed it": (
        "twice", lambda h, s, m: _swap(h.writes, 4, accepted=True)),
    "one lease went to two workers": (
        "twice", lambda h, s, m: h.leases.append(h.leases[4]._replace(worker="f"))),
    "a late write was accepted": ("zombie", lambda h, s, m: _swap(h.writes, 2, accepted=True)),
    "a late renewal was accepted": (
        "zombie", lambda h, s, m: _swap(h.writes, 0, asked_at=22.0)),
    "a token fell": ("tokens", lambda h, s, m: _swap(m, 4, token=1)),
    "a token was used again": ("tokens", lambda h, s, m: _swap(m, 4, token=2)),
    "an ending carries another lease's token": ("tokens", lambda h, s, m: _swap(m, 3, token=1)),
    "it left a state that it was not in": ("path", lambda h, s, m: m.pop(5)),
    "it left a final state": (
        "path", lambda h, s, m: m.append(Move("completed", "pending", "user", "", 4, 5, None))),
    "its moves lead elsewhere": (
        "path", lambda h, s, m: s.tasks.update(t=s.tasks["t"]._replace(status="failed"))),
    "a lease ended by its worker's hand without its knowledge": (
        "path", lambda h, s, m: h.left_at.clear()),
    "the next lease came before the last was ended": (
        "overlap", lambda h, s, m: _swap(h.leases, 1, got_at=11.0)),
    "the next lease came before the last ran out": (
        "overlap", lambda h, s, m: _swap(h.leases, 2, got_at=23.5)),
    "the next lease came before its holder was killed": (
        "overlap", lambda h, s, m: _swap(h.leases, 3, got_at=34.5)),
    "the next lease came before its holder left": (
        "overlap", lambda h, s, m: _swap(h.leases, 4, got_at=44.5)),
    "the living was declared dead": ("overlap", lambda h, s, m: h.killed_at.clear()),
}  # fmt: skip


@pytest.mark.parametrize("broken", DOCTORED)
def test_the_checker_sees_each_kind_of_violation(broken: str) -> None:
    kind, doctor = DOCTORED[broken]
    history, stored = sound_history()
    doctor(history, stored, stored.moves["t"])
    assert kind in {found.kind for found in violations(history, stored)}


def test_a_record_cut_off_by_a_kill_says_nothing(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "w")
    recorder.enqueued(["a"])
    with (tmp_path / "w.jsonl").open("a") as file:
        file.write('["enqueued", "b"')
    assert read_history(tmp_path).enqueued == ["a"]
