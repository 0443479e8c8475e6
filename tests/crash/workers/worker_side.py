"""What runs inside the workers that crash tests kill: their handlers, and what they record."""

import ctypes
import logging
import os
import subprocess
import time
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from outlast import Outlast, Settings
from outlast.domain.lifecycle import Outcome
from outlast.store.records import Claimed
from outlast.tasks.context import Context
from outlast.tasks.functions import FunctionOptions, TaskFunction
from outlast.worker import dispatcher as dispatcher_module
from outlast.worker import worker as worker_module
from outlast.worker.dispatcher import Dispatcher
from outlast.worker.job import Job
from outlast.worker.jobs import Entry, Jobs
from outlast.worker.messages import Ending, Proof
from outlast.worker.prefetch import PrefetchPace
from outlast_lab.experiments.chaos.crowd import result_of
from outlast_lab.record.history import ANSWERED, ASKS, LEFT, LineFile, host_seconds
from tests.support.childside import die, say

FOR_EVER_SECONDS = 600

_VERBS = {Outcome.COMPLETE: "complete", Outcome.FAIL: "fail", Outcome.RELEASE: "release"}


class _Here:
    """The worker of this process, and where its handlers leave their signs."""

    name: str
    signs: Path


def folder_beside(database: Path | str, name: str) -> Path:
    """A folder that workers and tests share."""
    folder = Path(database).parent / name
    folder.mkdir(exist_ok=True)
    return folder


def leave(folder: Path, name: str, text: str = "") -> None:
    """Leave a sign, under another name first, so that whoever finds it finds it whole."""
    new = folder / f".{name}.{os.getpid()}"
    new.write_text(text)
    new.rename(folder / name)


def work(path: str, name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    """Run a worker, and say what it did once it is done."""
    _Here.name, _Here.signs = name, folder_beside(path, "signs")
    RecordingDispatcher.recorder = recorder = DispatcherRecord(
        folder_beside(path, "histories"), name
    )
    if options.pop("eager", False):
        vars(dispatcher_module)["PrefetchPace"] = EagerPace
    vars(dispatcher_module)["Jobs"] = RecordingJobs
    RecordingDispatcher.pause_seconds = options.pop("dispatcher_pause_seconds", 0.0)
    vars(worker_module)["Dispatcher"] = RecordingDispatcher
    logging.basicConfig(filename=_Here.signs / f"log of {name}", format="%(created)f %(message)s")
    app = Outlast(path, settings=Settings(**settings))
    for handler in (quick, held, stubborn, grips, poison, leaves_a_process):
        app.task(handler)
    app.functions.register(kills_its_process)
    until_empty = options.pop("until_empty", False)
    if strays := options.pop("strays", 0):
        app.prefetch(name, limit=strays)
    worker = app.worker(name=name, **options)
    tally = worker.run(until_empty=until_empty)
    recorder.leaving()
    app.close()
    say(asdict(tally))


# Handlers


def quick(ctx: Context, seconds: float = 0.0) -> str:
    time.sleep(seconds)
    return _result(ctx)


def held(ctx: Context) -> str:
    """At work until it is let go or called off."""
    ctx.progress(1, total=2)
    _sign("begun", ctx)
    while not (_is_let_go(ctx) or ctx.cancelled):
        time.sleep(0.01)
    _sign("cancelled" if ctx.cancelled else "returned", ctx, ctx.reason or "")
    return _result(ctx)


def stubborn(ctx: Context) -> str:
    """At work until it is let go, whatever it is told."""
    _sign("begun", ctx)
    while not _is_let_go(ctx):
        time.sleep(0.01)
    _sign("finished", ctx)
    return _result(ctx)


def grips(ctx: Context, fifo: str) -> str:
    """Holds the interpreter in C until a byte comes: no thread of this process moves meanwhile."""
    descriptor = os.open(fifo, os.O_RDWR)
    _sign("gripping", ctx)
    ctypes.PyDLL(None).read(descriptor, ctypes.create_string_buffer(1), 1)
    return held(ctx)


def poison(ctx: Context) -> None:
    _sign("begun", ctx)
    die()


def leaves_a_process(ctx: Context) -> str:
    """Its child outlives the worker and inherits whatever a program can inherit from it."""
    child = subprocess.Popen(["sleep", str(FOR_EVER_SECONDS)], close_fds=False)
    _sign("begun", ctx, str(child.pid))
    while not _is_let_go(ctx):
        time.sleep(0.01)
    return _result(ctx)


def _kills_its_process() -> None:
    """What the kernel does to a process that takes too much memory."""
    die()


# Found by this name in the process that runs it.
kills_its_process = TaskFunction(
    _kills_its_process, "kills_its_process", FunctionOptions(isolation="process")
)


def _result(ctx: Context) -> str:
    return result_of(_Here.name, ctx.claimed.grant.token)


def _sign(word: str, ctx: Context, text: str = "") -> None:
    leave(_Here.signs, f"{word} {ctx.task_id} {ctx.attempt}", text)


def _is_let_go(ctx: Context) -> bool:
    return (_Here.signs / f"go {ctx.task_id}").exists()


# The record


class Seen(NamedTuple):
    """A lease as the recorder wants it."""

    task_id: str
    token: int
    attempt: int
    lease_ms: int


class DispatcherRecord:
    """What a worker was told, as the laboratory's histories have it."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._worker = worker
        self._file = LineFile(folder / f"{worker}.jsonl")
        self._numbers = count()

    def leased(self, seen: Seen, asked_at: float) -> None:
        self._answer(self._ask("claim", {"limit": 1}, asked_at), [list(seen)])

    def asks(self, seen: Seen, verb: str) -> str:
        """On record before anybody can store it: who is killed then may have been heard."""
        held: dict[str, Any] = {"ids": [seen.task_id], "token": seen.token}
        if verb == "complete":
            held["result"] = result_of(self._worker, seen.token)
        return self._ask(verb, held, host_seconds())

    def wrote(self, number: str) -> None:
        self._answer(number, True)

    def leaving(self) -> None:
        self._file.write([LEFT, self._worker, host_seconds()])

    def _ask(self, verb: str, arguments: dict[str, Any], at: float) -> str:
        number = f"dispatcher {next(self._numbers)}"
        self._file.write([ASKS, number, self._worker, verb, arguments, at, int(at * 1000)])
        return number

    def _answer(self, number: str, value: Any) -> None:
        now = host_seconds()
        self._file.write([ANSWERED, number, self._worker, "done", value, now, int(now * 1000)])


class RecordingJobs(Jobs):
    """Records each outcome as it is laid down: before that moment nobody can have stored it."""

    def decide(self, job: Job, entry: Entry) -> None:
        RecordingDispatcher.ask(entry)
        super().decide(job, entry)


class EagerPace(PrefetchPace):
    """Takes as many tasks ahead as it may, from the first moment, and keeps them."""

    def ahead(self) -> int:
        return self._prefetch

    def hoards(self, now: float) -> bool:
        return False


class RecordingDispatcher(Dispatcher):
    """Records each lease when it arrives, and each ending once it is said to be committed."""

    recorder: DispatcherRecord
    asked: ClassVar[dict[tuple[Proof, str], str]] = {}
    seen: ClassVar[dict[Proof, Seen]] = {}
    pause_seconds = 0.0

    def _watch_clocks(self) -> None:
        """The worst place to be kept waiting in: news is read, and what it says grows old."""
        time.sleep(self.pause_seconds)
        super()._watch_clocks()

    @classmethod
    def ask(cls, entry: Entry) -> str:
        """The number of what is asked; asked anew only if it is something else."""
        proof = (entry[0], entry[1])
        verb = _VERBS[entry.outcome if isinstance(entry, Ending) else Outcome.COMPLETE]
        if (proof, verb) not in cls.asked:
            cls.asked[proof, verb] = cls.recorder.asks(cls.seen[proof], verb)
        return cls.asked[proof, verb]

    def _hand_on(self, handed: list[Claimed], claimed_mono_ms: int) -> None:
        for one in handed:
            seen = Seen(one.task_id, one.grant.token, one.attempt, one.lease_ms)
            self.seen[one.grant.seq, one.grant.token] = seen
            self.recorder.leased(seen, claimed_mono_ms / 1000)
        super()._hand_on(handed, claimed_mono_ms)

    def _settled(self, proofs: list[Proof]) -> None:
        for proof in proofs:
            entry = self._jobs.unsettled.get(proof)
            if entry is not None:
                self.recorder.wrote(self.ask(entry))
        super()._settled(proofs)
