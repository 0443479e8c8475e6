"""Sixty-four threads in each of eight processes on one store, some of them killed on the way."""

import random
import threading
import time
from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast_lab.experiments.chaos.crowd import result_of
from outlast_lab.judge.foreign_reader import Stored, foreign_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.record.history import History, LineFile, host_seconds, read_history
from outlast_lab.record.recorder import Witness
from tests.support.children import Child

pytestmark = pytest.mark.slow

PROCESSES = 8
THREADS = 64
LOAD_SECONDS = 20
# Who is killed, after how many of its signs of life; it gives one about every second.
VICTIMS = {1: 2, 4: 4, 6: 6}
# Long enough for work that is settled, short enough for work that is forgotten to come back.
LEASE_SECONDS = (0.5, 30)


def work_until(stop: threading.Event, witness: Witness, name: str) -> None:
    """One thread of the crowd: puts work in and takes work out, on the record."""
    dice, numbers = random.Random(name), count()
    while not stop.is_set():
        if dice.random() < 0.4:
            _produce(witness, [f"{name}:{next(numbers)}" for _ in range(3)], dice)
        else:
            _consume(witness, dice)


def _produce(witness: Witness, ids: list[str], dice: random.Random) -> None:
    priority = dice.randrange(3)
    if dice.random() < 0.5:
        witness.enqueue(ids[0], priority=priority)
    else:
        witness.enqueue_many(ids, range(3), priority=priority)


def _consume(witness: Witness, dice: random.Random) -> None:
    lease = LEASE_SECONDS[dice.random() < 0.9]
    for one in witness.claim(limit=dice.randint(1, 4), lease=lease):
        if dice.random() < 0.3:
            witness.renew(one)
        verb = dice.choices(["complete", "fail", "release", "forget"], [70, 10, 15, 5])[0]
        if verb != "forget" or one.lease_ms > 1000:
            _end(witness, one, verb)


def _end(witness: Witness, lease: Any, verb: str) -> None:
    if verb == "fail":
        witness.fail(lease, "out of luck", delay=0)
    elif verb == "release":
        witness.release(lease)
    else:
        witness.complete(lease, result_of(witness.worker, lease.token))


def _works_in_the_crowd(path: str, folder: str, worker: str, threads: int) -> None:
    import logging
    import threading
    import time

    from outlast import Outlast
    from outlast_lab.record.history import LineFile
    from outlast_lab.record.recorder import Witness
    from tests.crash.commits.test_crowd import work_until
    from tests.support.childside import hear, say

    logging.disable()
    record = LineFile(f"{folder}/{worker}.jsonl")
    witness, stop = Witness(Outlast(path).open(), worker, record.write), threading.Event()
    say("ready")
    until = hear()
    crowd = [
        threading.Thread(target=work_until, args=(stop, witness, f"{worker}.{n}"))
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
    witness.close()


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
                self.killed_at[f"p{number}"] = host_seconds()
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
    witness = Witness(Outlast(database).open(), "last", LineFile(folder / "last.jsonl").write)
    while witness.app.counts()["pending"] + witness.app.counts()["running"]:
        leases = witness.claim(limit=1000, wait=30)
        witness.complete_many([(one, result_of("last", one.token)) for one in leases])
    witness.close()


def refusals_but_of_lost_leases(history: History) -> list[str]:
    """Whatever was refused to a crowd that does nothing wrong."""
    refused = [str(call.value) for call in history.calls if call.outcome == "refused"]
    return [said for said in refused if not said.startswith("LeaseLost")]


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
    history, stored = read_history(folder), foreign_stored(database)
    history.killed_at = crowd.killed_at
    assert refusals_but_of_lost_leases(history) == []
    assert violations(history, stored)[:5] == []
    assert {task.status for task in stored.tasks.values()} <= {"completed", "failed"}
    assert_it_was_a_crowd(history, stored)


def assert_it_was_a_crowd(history: History, stored: Stored) -> None:
    """Otherwise the rest proves little."""
    assert len(history.killed_at) == len(VICTIMS)
    assert len(stored.tasks) > 1000
    answers = Counter(call.verb for call in history.calls if call.is_done and call.value)
    for verb in ("renew", "complete", "fail", "release"):
        assert answers[verb] > 50, answers
    endings = Counter(move.reason for moves in stored.moves.values() for move in moves)
    assert endings["crash_retry"] > 0, endings
    assert endings["lease_expired_retry"] > 0, endings
    holders = {call.worker for call in history.of("claim") if call.value}
    # On a machine that is busy with other things, a victim may be killed before its first claim
    # was answered; that somebody was killed with tasks in hand is told by the endings above.
    assert len(holders) >= PROCESSES
