"""Handlers for the tests of isolation: each runs in a process of its own, and some end it."""

import atexit
import builtins
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from outlast import LeaseLost, Outlast, PermanentError
from outlast.tasks.context import Context

MIB = 1 << 20
FOR_EVER_SECONDS = 600

left_behind: list[Context] = []


app = Outlast("never-opened.db")
isolated = app.task(isolation="process")


@dataclass
class Point:
    x: int
    y: int


@isolated
def add(a: int, b: int) -> int:
    return a + b


@isolated
def mirrored(point: Point) -> Point:
    assert isinstance(point, Point)
    return Point(point.y, point.x)


@isolated
async def add_later(a: int, b: int) -> int:
    import asyncio

    await asyncio.sleep(0)
    return a + b


@isolated
def own_pid() -> int:
    return os.getpid()


@isolated
def echo(value: Any) -> Any:
    return value


@isolated
def long_text(characters: int) -> str:
    return "x" * characters


@isolated
def not_json() -> object:
    return {"a set": {1, 2}}


@isolated
def fails(message: str) -> None:
    secret = "the local value"
    raise ValueError(message + secret[:0])


@isolated
def fails_with_half_a_character() -> None:
    raise ValueError("half a character: \udce9")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@isolated
def fails_without_words() -> None:
    raise Unspeakable


@isolated
def fails_for_good() -> None:
    raise PermanentError("never again")


@isolated
def raises(error: str) -> None:
    raise getattr(builtins, error)(3)


@isolated
def prints(lines: int) -> int:
    for n in range(lines):
        print(f"line {n} of the handler")
    os.write(1, b"raw bytes \x00\xff of the handler\n")
    os.write(2, b"raw error of the handler\n")
    return lines


@isolated
def reads_its_input() -> str:
    return sys.stdin.read()


@isolated
def segfaults() -> None:
    ctypes.string_at(0)


@isolated
def leaves(status: int) -> None:
    os._exit(status)


@isolated
def is_killed(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(FOR_EVER_SECONDS)


@isolated
def stays(sign: str) -> None:
    """Writes its pids into a file and does not come back."""
    _leave_sign(sign, [os.getpid(), os.getppid()])
    time.sleep(FOR_EVER_SECONDS)


@isolated
def holds_the_interpreter(sign: str) -> None:
    """Sleeps in C with the interpreter's lock in hand, where no thread of Python's can run."""
    _leave_sign(sign, [os.getpid(), os.getppid()])
    ctypes.PyDLL(None).sleep(FOR_EVER_SECONDS)


@isolated
def starts_another(sign: str, way: str, stays: bool) -> None:
    """Starts a process, writes all pids into a file, then stays or ends without goodbye."""
    if way == "exec":
        grandchild = subprocess.Popen(["sleep", str(FOR_EVER_SECONDS)]).pid
    else:
        process = get_context("fork").Process(target=time.sleep, args=(FOR_EVER_SECONDS,))
        process.start()
        assert process.pid is not None
        grandchild = process.pid
    _leave_sign(sign, [os.getpid(), os.getppid(), grandchild])
    if stays:
        time.sleep(FOR_EVER_SECONDS)
    os._exit(0)


@isolated
def leaves_a_daemon(sign: str) -> None:
    """Forks a process that leaves the session, as daemons do, and stays itself."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        _leave_sign(sign, [os.getpid(), os.getppid()])
        time.sleep(FOR_EVER_SECONDS)
    time.sleep(FOR_EVER_SECONDS)


@isolated
def comes_back_twice(mark: str) -> bool:
    """True if the fork that came back went on to behave like the handler's process."""
    atexit.register(Path(mark).touch)
    pid = os.fork()
    if pid == 0:
        return True
    os.waitpid(pid, 0)
    atexit.unregister(Path(mark).touch)
    return Path(mark).exists()


@isolated
def asks_in_a_fork(ctx: Context, mark: str) -> str:
    pid = os.fork()
    if pid == 0:
        try:
            ctx.progress(1)
        except LeaseLost as error:
            Path(mark).write_text(str(error), encoding="utf-8")
        os._exit(0)
    os.waitpid(pid, 0)
    return Path(mark).read_text(encoding="utf-8")


@isolated
def ends_children_politely() -> list[int | None]:
    """Processes that a handler starts must end by SIGTERM, as their callers expect."""
    forked = get_context("fork").Process(target=time.sleep, args=(FOR_EVER_SECONDS,))
    forked.start()
    forked.terminate()
    forked.join(30)
    with subprocess.Popen(["sleep", str(FOR_EVER_SECONDS)]) as executed:
        executed.terminate()
    return [forked.exitcode, executed.returncode]


@isolated
def is_told_to_stop() -> str:
    """A service that stops sends its signal to every process it has."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.killpg(0, number)
    return "went on"


@isolated
def closes_everything() -> None:
    os.closerange(3, 1000)
    time.sleep(FOR_EVER_SECONDS)


def _leave_sign(sign: str, pids: list[int]) -> None:
    """Under another name first, so that whoever finds it finds it whole."""
    path = Path(sign)
    path.with_suffix(".new").write_text(" ".join(map(str, pids)), encoding="ascii")
    path.with_suffix(".new").rename(path)


# The context


@isolated
def records(ctx: Context, type: str, data: Any) -> dict[str, Any]:
    before = ctx.latest_checkpoint()
    made = ctx.checkpoint(type, data, {"by": ctx.kind})
    after = ctx.latest_checkpoint(type)
    assert after is not None
    return {
        "before": before is not None,
        "number": made.sequence_number,
        "data": after.data,
        "metadata": after.metadata,
        "zone": str(made.created_at.tzinfo),
    }


@isolated
def describes(ctx: Context) -> dict[str, Any]:
    ctx.progress(3, total=4, note="nearly")
    return {
        "task_id": ctx.task_id,
        "kind": ctx.kind,
        "queue": ctx.queue,
        "group": ctx.group,
        "attempt": ctx.attempt,
        "cancelled": ctx.cancelled,
        "stopping": ctx.stopping,
        "waited": ctx.wait(0.0),
    }


@isolated
def records_by_threads(ctx: Context, threads: int, each: int) -> int:
    numbers: list[int] = []

    def record() -> None:
        numbers.extend(ctx.checkpoint("tool_executed", {}).sequence_number for _ in range(each))

    made = [threading.Thread(target=record) for _ in range(threads)]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()
    return len(set(numbers))


@isolated
def keeps_its_context(ctx: Context) -> None:
    left_behind.append(ctx)


@isolated
def speaks_for_another() -> None:
    left_behind.pop().progress(1)


@isolated
def waits_to_stop(ctx: Context, sign: str) -> bool:
    _leave_sign(sign, [os.getpid()])
    return ctx.wait(FOR_EVER_SECONDS)


@isolated
def uses_a_store(path: str) -> str:
    """A handler may enqueue more work; its process opens the store for itself."""
    return Outlast(path).enqueue("more").id


@isolated
def pay_apart(ctx: Context, invoice: str) -> str:
    ctx.complete("paid apart", also=[("INSERT INTO paid VALUES (?)", (invoice,))])
    return "not this"
