"""The processes that share an experiment's work, and the one that orders it from them."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, Self

_MEMORY = Path("/dev/shm")
_GOODBYE_SECONDS = 10


class Order(NamedTuple):
    """Something for a hand to do."""

    verb: str
    arguments: dict[str, Any]


class HandLost(Exception):
    """A process of the experiment itself ended; its last words."""


class _Process:
    def __init__(self, images: Path) -> None:
        images.mkdir()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "outlast.lab.power.hand", str(images)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            text=True,
        )

    def do(self, order: Order) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._words.seek(0)
            raise HandLost(self._words.read().decode(errors="replace").strip())
        return json.loads(answer)

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._words.close()


class Hands:
    """Some processes, as many as there are processors."""

    def __init__(self, folder: Path, number: int | None = None) -> None:
        number = number or min(8, len(os.sched_getaffinity(0)))
        place = _MEMORY if os.access(_MEMORY, os.W_OK) else folder
        # Images are laid down, read and taken away by the thousand: in memory, where there is some.
        self._images = Path(tempfile.mkdtemp(prefix="outlast-lab-power-", dir=place))
        self._idle: SimpleQueue[_Process] = SimpleQueue()
        self._processes = [_Process(self._images / str(n)) for n in range(number)]
        for process in self._processes:
            self._idle.put(process)
        self._threads = ThreadPoolExecutor(number)

    def do(self, orders: Iterator[Order]) -> Iterator[tuple[Order, Any]]:
        """Have orders carried out, and tell the answers as they come; none is asked for early."""
        under_way: dict[Future[Any], Order] = {}
        is_over = False
        while under_way or not is_over:
            while not is_over and len(under_way) <= len(self._processes):
                order = next(orders, None)
                if order is None:
                    is_over = True
                else:
                    under_way[self._threads.submit(self._do, order)] = order
            if under_way:
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for one in done:
                    yield under_way.pop(one), one.result()

    def _do(self, order: Order) -> Any:
        process = self._idle.get()
        try:
            return process.do(order)
        finally:
            self._idle.put(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.close()
        shutil.rmtree(self._images, ignore_errors=True)
