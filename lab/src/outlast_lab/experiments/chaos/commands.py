"""Calls of the command line, each a process of its own; one of the programs of chaos."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from outlast.errors import OutcomeUnknown, StoreError
from outlast_lab.experiments.chaos.crowd import KINDS
from outlast_lab.record.recorder import Witness

PATIENCE_SECONDS = 60
UNKNOWN_OUTCOME, UNEXPECTED = 6, 70
_ALREADY = "was already"

# The command line of a process that ends with the thread that started it, even while it is stopped.
PROGRAM = """
import sys
from outlast.host import processes
processes.die_with_parent(int(sys.argv.pop(1)))
sys.argv[0] = "outlast"
from outlast.cli.main import main
main()
"""


class CommandKilled(BaseException):
    """The command was killed before it could answer; no error of Outlast, so nobody answers."""


class Shell:
    """Somebody at a prompt, whose commands are on the record like any other call."""

    def __init__(self, witness: Witness, dice: random.Random) -> None:
        self._witness = witness
        self._dice = dice
        self._numbers = count()
        self._known: list[str] = []

    def act(self) -> None:
        """One command, by the dice."""
        commands: list[Callable[[], Any]] = [
            self._enqueue, self._cancel, self._look,
            lambda: self._by_name("pause", {"queue": "side"}, ["queue", "pause", "side"]),
            lambda: self._by_name("unpause", {"queue": "side"}, ["queue", "resume", "side"]),
        ]  # fmt: skip
        try:
            self._dice.choices(commands, [6, 2, 2, 1, 1])[0]()
        except CommandKilled:
            return

    def _enqueue(self) -> None:
        task_id = f"{self._witness.worker}:{next(self._numbers)}"
        self._known.append(task_id)
        words = ["enqueue", self._dice.choice(KINDS), '{"seconds": 0, "way": "return"}']
        arguments = {"ids": [task_id], "payloads": [{"seconds": 0, "way": "return"}]}
        self._on_record("enqueue", arguments, [*words, "--id", task_id], [task_id])

    def _cancel(self) -> None:
        if self._known:
            task_id = self._dice.choice(self._known)
            self._by_name("cancel", {"ids": [task_id]}, ["task", "cancel", task_id])

    def _look(self) -> None:
        words = self._dice.choice([["queue", "stats"], ["task", "list"], ["task", "show", "?"]])
        self._on_record("look", {}, words)

    def _by_name(self, verb: str, arguments: dict[str, Any], words: list[str]) -> None:
        """A change stands in the audit; the command's words say whether there was one."""
        by = self._witness.worker
        run = partial(self._run, [*words, "--by", by])
        self._witness.call(verb, {**arguments, "by": by}, run, lambda said: _ALREADY not in said)

    def _on_record(
        self, verb: str, arguments: dict[str, Any], words: list[str], value: Any = None
    ) -> None:
        """A command's exit code says as much as an error would."""
        self._witness.call(verb, arguments, partial(self._run, words), lambda _: value)

    def _run(self, words: list[str]) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(os.getpid()),
             "--store", str(self._witness.app.path), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )  # fmt: skip
        said = done.stderr.strip()[-500:]
        if done.returncode < 0:
            raise CommandKilled
        if done.returncode == UNEXPECTED:
            raise RuntimeError(said)
        if done.returncode == UNKNOWN_OUTCOME:
            raise OutcomeUnknown(self._known[-1:], said)
        if done.returncode:
            raise StoreError(said)
        return done.stdout
