"""The program whose worker is killed: one function of each sort, all of which leave a trace.

Run by a real worker, in its threads, on its loop, and in processes of their own. A line for each
execution goes to a file before and after it, so that what ran is known whoever was killed.
"""

import asyncio
import os
import time

from outlast.app.app import Outlast
from outlast.tasks.context import Context
from outlast_lab.history import LineFile

STORE_VARIABLE = "LABORATORY_STORE"
TRACE_VARIABLE = "LABORATORY_TRACE"

BEGUN, RETURNS = "begun", "returns"
KINDS = ("in_thread", "on_loop", "apart")

app = Outlast(os.environ.get(STORE_VARIABLE, "never-opened.db"))


@app.task
def in_thread(ctx: Context, milliseconds: int) -> str:
    """In a thread of the worker."""
    _trace(BEGUN, ctx)
    time.sleep(milliseconds / 1000)
    return _trace(RETURNS, ctx)


@app.task
async def on_loop(ctx: Context, milliseconds: int) -> str:
    """On the worker's loop."""
    _trace(BEGUN, ctx)
    await asyncio.sleep(milliseconds / 1000)
    return _trace(RETURNS, ctx)


@app.task(isolation="process")
def apart(ctx: Context, milliseconds: int) -> str:
    """In a process of its own."""
    _trace(BEGUN, ctx)
    time.sleep(milliseconds / 1000)
    return _trace(RETURNS, ctx)


def _trace(word: str, ctx: Context) -> str:
    result = result_of(ctx.task_id, ctx.attempt)
    file = LineFile(os.environ[TRACE_VARIABLE])
    file.write([word, ctx.task_id, ctx.attempt, os.getpid()])
    file.close()
    return result


def result_of(task_id: str, attempt: int) -> str:
    """What an execution returns, so that the store tells whose result it took."""
    return f"{task_id}/{attempt}"
