"""The work that the laboratory's real workers do: begin, wait for a word, try to write, return.

Handlers and director speak by files in a folder of signs, because what a handler has done must be
known even if it did not live to tell.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from outlast.errors import OutlastError
from outlast.tasks.context import Context
from outlast.tasks.functions import FunctionOptions, TaskFunction

_LOOK_SECONDS = 0.005
_LONGEST_SECONDS = 120.0


def leave_sign(folder: Path, name: str, text: str = "") -> None:
    """Leave a sign, under another name first, so that whoever finds it finds it whole."""
    new = folder / f".{name}.{os.getpid()}"
    new.write_text(text, encoding="utf-8")
    new.rename(folder / name)


def await_sign(
    folder: Path,
    name: str,
    within_seconds: float = _LONGEST_SECONDS,
    is_over: Callable[[], bool] = lambda: False,
) -> str:
    """What a sign says; waits for it, though not once it is over with whoever was to leave it."""
    until = time.monotonic() + within_seconds
    while not (folder / name).exists():
        if is_over() and not (folder / name).exists():
            raise TimeoutError(f"whoever was to leave the sign {name!r} is gone")
        if time.monotonic() > until:
            raise TimeoutError(f"nobody left the sign {name!r} within {within_seconds:g} s")
        time.sleep(_LOOK_SECONDS)
    return (folder / name).read_text(encoding="utf-8")


def _hold(ctx: Context, signs: str) -> str:
    """At work until a word comes, whatever it is told; then every write that a handler can make."""
    folder = Path(signs)
    _begin(ctx, folder)
    await_sign(folder, f"go {ctx.task_id} {ctx.attempt}")
    _write_all(ctx, folder)
    return _result(ctx)


async def _hold_async(ctx: Context, signs: str) -> str:
    """The same on a loop; it does not care that it was called off."""
    folder = Path(signs)
    _begin(ctx, folder)
    until = time.monotonic() + _LONGEST_SECONDS
    while not (folder / f"go {ctx.task_id} {ctx.attempt}").exists():
        if time.monotonic() > until:
            raise TimeoutError("nobody gave the word")
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(_LOOK_SECONDS)
    said = {}
    writes: dict[str, Callable[[], Awaitable[Any]]] = {
        "checkpoint": lambda: ctx.acheckpoint("tool_executed", {"by": ctx.attempt}),
        "complete": lambda: ctx.acomplete(_result(ctx)),
    }
    for name, write in writes.items():
        while name not in said:
            # Called off again in the middle of it, it tries again.
            with suppress(asyncio.CancelledError):
                said[name] = await _answer_async(write)
    leave_sign(folder, f"wrote {ctx.task_id} {ctx.attempt}", json.dumps(said))
    return _result(ctx)


def _begin(ctx: Context, folder: Path) -> None:
    leave_sign(folder, f"begun {ctx.task_id} {ctx.attempt}", str(os.getpid()))


def _write_all(ctx: Context, folder: Path) -> None:
    """Try each write, and leave word of what came of it."""
    said = {
        "checkpoint": _answer(lambda: ctx.checkpoint("tool_executed", {"by": ctx.attempt})),
        "complete": _answer(lambda: ctx.complete(_result(ctx))),
    }
    leave_sign(folder, f"wrote {ctx.task_id} {ctx.attempt}", json.dumps(said))


def _answer(write: Callable[[], Any]) -> str:
    try:
        write()
    except OutlastError as error:
        return type(error).__name__
    return "accepted"


async def _answer_async(write: Callable[[], Awaitable[Any]]) -> str:
    try:
        await write()
    except OutlastError as error:
        return type(error).__name__
    return "accepted"


def _result(ctx: Context) -> str:
    return f"attempt {ctx.attempt}"


hold = TaskFunction(_hold, "hold", FunctionOptions())
hold_async = TaskFunction(_hold_async, "hold_async", FunctionOptions())
hold_apart = TaskFunction(_hold, "hold_apart", FunctionOptions(isolation="process"))

FUNCTIONS = (hold, hold_async, hold_apart)
