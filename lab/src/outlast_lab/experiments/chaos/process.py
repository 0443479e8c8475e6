"""A process of the crowd: does what its program says until it is told to leave, or killed.

`python -m outlast_lab.experiments.chaos.process` with the program as JSON. It tells nobody anything
but its record: whoever watches it knows its pid, and when it was killed.
"""

import asyncio
import json
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from outlast.app.aio import AsyncOutlast
from outlast.app.app import Outlast
from outlast.host import processes
from outlast.settings import Settings
from outlast_lab.experiments.chaos import handlers
from outlast_lab.experiments.chaos.commands import Shell
from outlast_lab.experiments.chaos.coroutines import Coroutine
from outlast_lab.experiments.chaos.crowd import QUEUES, Hand
from outlast_lab.experiments.chaos.finish import finish
from outlast_lab.experiments.chaos.keeper import Keeper
from outlast_lab.experiments.chaos.programs import LEASE_SECONDS, Program
from outlast_lab.experiments.clock.wall_clock import reach_second_processes
from outlast_lab.record.history import LineFile
from outlast_lab.record.recorder import Witness

# Tasks come no faster than a worker of a few threads can do them.
_PRODUCER_REST_SECONDS = 0.005
_LOOK_SECONDS = 0.05
# Every process looks for the dead by itself too, whether it claims or not.
DETECTION_SECONDS = 0.5


class Acting(Protocol):
    """Somebody who does one thing after another."""

    def act(self) -> None:
        """The next thing."""
        ...


class Here:
    """This process: its program, the store it works on, and where its record goes."""

    def __init__(self, program: Program, path: Path, folder: Path, seed: str) -> None:
        self.program = program
        self.path = path
        self.folder = folder
        self.settings = settings_of(program)
        self.record = LineFile(folder / f"{program.name}.jsonl")
        self._seed = seed
        # No event: a second signal's handler would wait for what the first one's holds.
        self._is_asked_to_stop = False

    def dice(self, worker: str) -> random.Random:
        """The dice of one of its workers."""
        return random.Random(f"{self._seed} {worker}")

    def witness(self) -> Witness:
        """A witness of its own app, under its own name."""
        app = Outlast(self.path, settings=self.settings)
        return Witness(app, self.program.name, self.record.write)

    def has_to_stop(self) -> bool:
        """Whether it was asked to leave."""
        return self._is_asked_to_stop

    def ask_to_stop(self, *signal_and_frame: object) -> None:
        """What SIGTERM does."""
        self._is_asked_to_stop = True

    def wait(self) -> None:
        """Until it is asked to leave."""
        while not self._is_asked_to_stop:
            time.sleep(_LOOK_SECONDS)

    def threads(self, witness: Witness, make: "Callable[[Witness], Acting]") -> None:
        """Have one hand act in each thread of the program until the end, then leave."""
        hands = [make(witness.named(name)) for name in self.program.workers()[1:]]
        threads = [threading.Thread(target=self._repeat, args=(hand,)) for hand in hands]
        for thread in threads:
            thread.start()
        self.wait()
        for thread in threads:
            thread.join()

    def _repeat(self, hand: Acting) -> None:
        while not self._is_asked_to_stop:
            hand.act()


def settings_of(program: Program) -> Settings:
    """Everything quick, so that much happens in a few seconds."""
    return Settings(
        lease_seconds=LEASE_SECONDS,
        retry_backoff_seconds=0.05,
        retry_backoff_cap_seconds=0.2,
        write_timeout_seconds=program.write_timeout_seconds,
        stall_seconds=0.2,
        shutdown_seconds=1,
        flush_pages=200,
        heal_batch=20,
        detection_interval_seconds=DETECTION_SECONDS,
    )


def crowd(here: Here) -> None:
    """Threads that put in and take out by hand."""
    witness = here.witness()
    witness.open()
    here.threads(witness, lambda one: Hand(one, here.dice(one.worker)))
    witness.close()


def keeper(here: Here) -> None:
    """Threads that do what operators do, and one that puts work in and takes it out."""
    witness = here.witness()
    witness.open()

    def make(one: Witness) -> Acting:
        is_first = one.worker.endswith(".0")
        return (Hand if is_first else Keeper)(one, here.dice(one.worker))

    here.threads(witness, make)
    witness.close()


def worker(here: Here) -> None:
    """The real worker, in the main thread as programs have it; its threads put work in."""
    reach_second_processes()
    os.environ |= {handlers.WORKER: here.program.name, handlers.FOLDER: str(here.folder)}
    witness = here.witness()
    witness.open()
    handlers.register(witness.app)
    names = here.program.workers()
    hand = Hand(witness.named(names[-1]), here.dice(names[-1]))
    running = witness.app.worker(name=here.program.name, concurrency=4, queues=QUEUES)

    def produce() -> None:
        while not here.has_to_stop():
            hand.produce()
            time.sleep(_PRODUCER_REST_SECONDS)
        # SIGTERM may have come before the worker took the signals for itself.
        running.stop()

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        witness.call("work", {}, running.run)
    finally:
        here.ask_to_stop()
        thread.join()
    witness.close()


def coroutines(here: Here) -> None:
    """Coroutines on one loop."""
    aio = AsyncOutlast(here.path, settings=here.settings)
    witness = Witness(aio.sync, here.program.name, here.record.write)

    async def act() -> None:
        await witness.acall("open", {}, aio.open())
        everybody = [
            Coroutine(aio, witness.named(name), here.dice(name)).act_until(here.has_to_stop)
            for name in here.program.workers()[1:]
        ]
        await asyncio.gather(*everybody)
        witness.leaving()
        await witness.acall("close", {}, aio.close())

    asyncio.run(act())


def commands(here: Here) -> None:
    """Somebody at a prompt."""
    witness = here.witness()
    here.threads(witness, lambda one: Shell(one, here.dice(one.worker)))
    witness.close()


def last(here: Here) -> None:
    """Whoever comes when all others are gone."""
    witness = here.witness()
    finish(witness)
    witness.close()


ROLES = {
    "crowd": crowd,
    "keeper": keeper,
    "worker": worker,
    "coroutines": coroutines,
    "commands": commands,
    "last": last,
}


def main() -> None:
    """Read who we are and be it."""
    given = json.loads(sys.argv[1])
    # A laboratory that is killed takes its crowd along.
    processes.die_with_parent(given["parent"])
    program = Program(*given["program"])
    here = Here(program, Path(given["path"]), Path(given["folder"]), given["seed"])
    signal.signal(signal.SIGTERM, here.ask_to_stop)
    logging.basicConfig(level=logging.WARNING)
    ROLES[program.role](here)


if __name__ == "__main__":
    main()
