"""The rivals on SQLite: each measured in a process of its own, durable, at its best settings."""

import importlib.metadata
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.machine import ROOT

START_SECONDS = 60
SLOWEST_RATE = 20


@dataclass(frozen=True, slots=True)
class Peer:
    """One rival: the module here that drives it, the package it is, and what it leaves out."""

    module: str
    distribution: str
    caveat: str

    def version(self) -> str:
        """The version installed; PackageNotFoundError outside of `./run bench`."""
        return importlib.metadata.version(self.distribution)

    def enqueue_singly(self, folder: Path, count: int) -> float:
        """Tasks a second put in one by one by one caller, each synced before the next."""
        return self._measure("enqueue_singly", folder, count)

    def consume(self, folder: Path, count: int) -> float:
        """Tasks a second taken out and done with; filling the queue first is not counted."""
        return self._measure("consume", folder, count)

    def _measure(self, verb: str, folder: Path, count: int) -> float:
        if count < 2:
            raise ValueError(f"a rate needs at least 2 tasks, not {count}")
        with tempfile.TemporaryDirectory(prefix=f"{self.module}-", dir=folder) as own:
            what = (self.module, verb, own, str(count))
            ended = subprocess.run(
                [sys.executable, "-m", "bench.peers.child", *what],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=START_SECONDS + count / SLOWEST_RATE,
                check=False,
            )
        if ended.returncode != 0:
            raise RuntimeError(f"{self.distribution} could not {verb}:\n{ended.stderr[-2000:]}")
        return float(ended.stdout.splitlines()[-1])


PEERS: dict[str, Peer] = {
    "huey": Peer(
        "huey",
        "huey",
        "at most once: a task is deleted before it runs, so a crash loses it; one commit a task",
    ),
    "litequeue": Peer(
        "litequeue",
        "litequeue",
        "no worker, leases or retries: a message whose taker died stays locked until asked for",
    ),
    "persist-queue": Peer(
        "persist_queue",
        "persist-queue",
        "one process only: opening it in a second one hands out what the first has in hand",
    ),
    "dbos": Peer(
        "dbos",
        "dbos",
        "keeps results and resumes after a crash; its makers recommend PostgreSQL for production",
    ),
}
