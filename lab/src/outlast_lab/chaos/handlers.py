"""Handlers of the real worker, which note when they begin and end; one of the programs of chaos.

They stand at the top of a module, so that a process of its own can find them. Where to write is
told by the environment, which such a process inherits.
"""

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

from outlast.errors import GiveBack
from outlast.tasks.context import Context
from outlast_lab.chaos.crowd import result_of
from outlast_lab.history import Line, LineFile

if TYPE_CHECKING:
    from outlast.app.app import Outlast

WORKER = "OUTLAST_LAB_WORKER"
FOLDER = "OUTLAST_LAB_FOLDER"
BEGUN, ENDED = "begun", "ended"


class _Record:
    """The file of this process, opened when the first handler runs here."""

    file: LineFile | None = None
    pid = 0

    @classmethod
    def write(cls, line: Line) -> None:
        if cls.file is None or cls.pid != os.getpid():
            cls.pid = os.getpid()
            name = f"{os.environ[WORKER]}.{cls.pid}.hands"
            cls.file = LineFile(os.path.join(os.environ[FOLDER], name))
        cls.file.write(line)


def register(app: "Outlast") -> None:
    """Have an app know all three."""
    app.task(by_thread)
    app.task(by_loop)
    app.task(isolation="process")(by_process)


def by_thread(ctx: Context, seconds: float, way: str) -> str:
    """Runs in a thread of the worker."""
    with _Execution(ctx):
        ctx.wait(seconds)
        return _ended(ctx, "return" if way == "die" else way)


async def by_loop(ctx: Context, seconds: float, way: str) -> str:
    """Runs on the worker's loop."""
    with _Execution(ctx):
        await asyncio.sleep(seconds)
        if way == "checkpoint":
            await ctx.acheckpoint("iteration_end", {"by": "loop"})
        return _ended(ctx, way if way in ("raise", "give back") else "return")


def by_process(ctx: Context, seconds: float, way: str) -> str:
    """Runs in a process of its own, which may be its last deed."""
    with _Execution(ctx):
        time.sleep(seconds)
        return _ended(ctx, way)


def _ended(ctx: Context, way: str) -> str:
    if way == "raise":
        raise ValueError("out of luck")
    if way == "give back":
        raise GiveBack
    if way == "checkpoint":
        ctx.checkpoint("iteration_end", {"by": "hand"})
    if way == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return result_of(os.environ[WORKER], ctx.claimed.grant.token)


class _Execution:
    """A handler at work, from its first line to its last."""

    def __init__(self, ctx: Context) -> None:
        self._what = [os.environ[WORKER], ctx.task_id, ctx.attempt, ctx.claimed.grant.token]

    def __enter__(self) -> None:
        _Record.write([BEGUN, *self._what, time.monotonic()])

    def __exit__(self, *details: object) -> None:
        _Record.write([ENDED, *self._what, time.monotonic()])
