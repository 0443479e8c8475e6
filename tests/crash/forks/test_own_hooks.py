"""A program's own hooks at fork and at exit may use a store, as if Outlast had none."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.foreign import foreign_statuses

AT_EXIT = """
import atexit, sys
from outlast import Outlast

app = Outlast(sys.argv[1])
atexit.register(lambda: app.enqueue("work", id="at exit"))
app.enqueue("work", id="first")
"""
BEFORE_A_FORK = """
import os, sys
from outlast import Outlast

app = Outlast(sys.argv[1])
os.register_at_fork(before=lambda: app.enqueue("work", id="before the fork"))
app.enqueue("work", id="first")
if not (pid := os.fork()):
    app.enqueue("work", id="in the child")
    os._exit(0)
os.waitpid(pid, 0)
"""


TOO_LATE = """
import atexit, sys

def last() -> None:
    try:
        app.enqueue("work", id="too late")
    except Exception as error:
        print(type(error).__name__, error)

atexit.register(last)
from outlast import Outlast

app = Outlast(sys.argv[1])
app.enqueue("work", id="first")
"""


def ended(program: str, database: Path) -> str:
    """What a program of its own says; it must end well and complain of nothing."""
    found = subprocess.run(
        [sys.executable, "-c", program, str(database)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout


@pytest.mark.parametrize(
    ("program", "stored"),
    [
        (AT_EXIT, {"first", "at exit"}),
        (BEFORE_A_FORK, {"first", "before the fork", "in the child"}),
    ],
    ids=["exit", "fork"],
)
def test_a_programs_own_hook_may_use_the_store(
    database: Path, program: str, stored: set[str]
) -> None:
    """It is registered after those of the package, and so runs first."""
    ended(program, database)
    assert set(foreign_statuses(database)) == stored


def test_one_who_comes_after_the_stores_are_closed_is_told_that_the_program_ends(
    database: Path,
) -> None:
    """Nobody has replaced the file, and nobody should be looked for."""
    said = ended(TOO_LATE, database)
    assert said.startswith("StoreError ")
    assert "the interpreter ends; nothing was stored" in said
    assert set(foreign_statuses(database)) == {"first"}
