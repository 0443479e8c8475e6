"""The experiment's side of the stages: some processes that play cases at the same time."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

_MOST_STAGES = 4
_GOODBYE_SECONDS = 10


class _Process:
    """One stage."""

    def __init__(self, folder: Path) -> None:
        with open(folder / "stages.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "outlast_lab.io_faults.stage", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # A group of its own, so that it can be ended with all that it started.
                process_group=0,
            )

    def ask(self, verb: str, what: str) -> Any:
        """What the stage answers."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("a stage was started without its pipes")
        self._process.stdin.write(json.dumps([verb, what]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the stage ended while it was asked to {verb} {what}")
        return json.loads(line)

    def end(self, at_once: bool = False) -> None:
        """Let it go: it ends when nobody asks any more; if not, or at once, it is killed."""
        if at_once:
            self._kill()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _kill(self) -> None:
        """With all it started; until it is waited for, the number is its own."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


class Pool:
    """Stages that share a folder."""

    def __init__(self, folder: Path, count: int = 0) -> None:
        """As many as asked for, or as the machine has processors for."""
        self._stages = [
            _Process(folder) for _ in range(count or min(os.cpu_count() or 1, _MOST_STAGES))
        ]

    def __enter__(self) -> Self:
        """They are ready when they answer."""
        return self

    def __exit__(self, kind: object, *details: object) -> None:
        """End all of them; at once if something went wrong or it was interrupted."""
        for stage in self._stages:
            stage.end(at_once=kind is not None)

    def ask_all(
        self, verb: str, whats: list[str], is_over: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[str, Any]]:
        """Each with its answer, as they come, until all are answered or it is over."""
        waiting, answered = SimpleQueue[str](), SimpleQueue[tuple[str, Any] | Exception | None]()
        for what in whats:
            waiting.put(what)

        def work(stage: _Process) -> None:
            try:
                while not is_over():
                    what = waiting.get_nowait()
                    answered.put((what, stage.ask(verb, what)))
            except Empty:
                pass
            except Exception as error:
                answered.put(error)
            answered.put(None)

        threads = [
            threading.Thread(target=work, args=(stage,), daemon=True) for stage in self._stages
        ]
        for thread in threads:
            thread.start()
        at_work = len(threads)
        while at_work:
            answer = answered.get()
            if isinstance(answer, Exception):
                raise answer
            if answer is None:
                at_work -= 1
            else:
                yield answer
