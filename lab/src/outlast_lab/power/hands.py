"""The processes that share an experiment's work, and the one that orders it from them."""

import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, Self

MEMORY = Path("/dev/shm")
PREFIX = "outlast-lab-power-"
OWNER = "owner"
"""The file in a folder of images that its owner keeps locked."""

_GOODBYE_SECONDS = 10
_OLD_SECONDS = 24 * 3600


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
            [sys.executable, "-m", "outlast_lab.power.hand", str(images)],
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

    def kill(self) -> None:
        self._process.kill()

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
        place = MEMORY if os.access(MEMORY, os.W_OK) else folder
        clear_what_the_dead_left(place)
        # Images are laid down, read and taken away by the thousand: in memory, where there is some.
        self._images, self._owner = _owned_folder(place)
        self._idle: SimpleQueue[_Process] = SimpleQueue()
        self._processes: list[_Process] = []
        self._threads = ThreadPoolExecutor(number)
        try:
            for n in range(number):
                self._processes.append(_Process(self._images / str(n)))
                self._idle.put(self._processes[-1])
        except BaseException:
            self._end(is_hurried=True)
            raise

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
        self._end(is_hurried=kind is not None)

    def _end(self, *, is_hurried: bool) -> None:
        """Whoever was interrupted does not wait for what is under way."""
        try:
            if is_hurried:
                for process in self._processes:
                    process.kill()
            self._threads.shutdown(cancel_futures=True)
            for process in self._processes:
                process.close()
        finally:
            shutil.rmtree(self._images, ignore_errors=True)
            os.close(self._owner)


def _owned_folder(place: Path) -> tuple[Path, int]:
    """A new folder and the lock that says it is in use; it has its name when it is locked."""
    made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=place))
    owner = os.open(made / OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(owner, fcntl.LOCK_EX)
    return made.rename(made.with_name(made.name[1:])), owner


def clear_what_the_dead_left(place: Path) -> None:
    """Remove our own folders of images whose owner was killed."""
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    try:
        owner = os.open(folder / OWNER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > _OLD_SECONDS
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(owner)
