"""A program that ends without closing is not held up by the threads of Outlast."""

import subprocess
import sys
from pathlib import Path

import pytest

from outlast import Outlast
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


CLOSES_INSIDE = """
app = Outlast(path)
other = Outlast(sys.argv[2]).open()

@app.task
def close():
    app.close()

app.enqueue("close")
app.worker().run()
"""


@pytest.mark.parametrize(
    "program",
    [CALLS, COROUTINE, SUBSCRIBER],
    ids=["calls", "a coroutine", "a subscriber"],
)
def test_a_program_that_ends_without_closing_is_not_held_up(database: Path, program: str) -> None:
    """Guards the end of the interpreter from waiting for threads that nobody ends."""
    run_to_its_end(program, database)
    assert set(foreign_statuses(database)) == {"t"}


@pytest.mark.parametrize("way", ["def", "async def"])
def test_a_handler_that_closes_its_app_leaves_the_other_stores_to_the_end(
    database: Path, way: str
) -> None:
    """What it closes is closed by the end of the program, in the midst of the others."""
    other = database.with_name("other.db")
    run_to_its_end(CLOSES_INSIDE.replace("def", way), database, other)
    with Outlast(other) as app:
        report = app.open().last_report()
        assert report is not None
        assert report.steps[0].outcome == "clean"


def run_to_its_end(program: str, *paths: Path) -> None:
    imports = "import asyncio, sys, threading\nfrom outlast import AsyncOutlast, Outlast\n"
    ended = subprocess.run(
        [sys.executable, "-c", f"{imports}path = sys.argv[1]\n{program}", *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
