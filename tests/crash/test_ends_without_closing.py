"""A program that ends without closing is not held up by the threads of Outlast."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.foreign import foreign_statuses

PATIENCE_SECONDS = 20

CALLS = """
app = Outlast(path)
app.enqueue("work", id="t")
"""
COROUTINE = """
async def main():
    await AsyncOutlast(path).enqueue("work", id="t")
asyncio.run(main())
"""
SUBSCRIBER = """
app = Outlast(path)
told = threading.Event()
app.subscribe(lambda event: told.set(), "name")
app.enqueue("work", id="t")
told.wait()
"""


@pytest.mark.parametrize(
    "program",
    [CALLS, COROUTINE, SUBSCRIBER],
    ids=["calls", "a coroutine", "a subscriber"],
)
def test_a_program_that_ends_without_closing_is_not_held_up(database: Path, program: str) -> None:
    """Guards the end of the interpreter from waiting for threads that nobody ends."""
    imports = "import asyncio, sys, threading\nfrom outlast import AsyncOutlast, Outlast\n"
    program = f"{imports}path = sys.argv[1]\n{program}"
    ended = subprocess.run(
        [sys.executable, "-c", program, str(database)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert set(foreign_statuses(database)) == {"t"}
