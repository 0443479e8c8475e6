"""What is not imported before it is needed; each name costs milliseconds of every start."""

import subprocess
import sys
from pathlib import Path

import pytest

# The names that a program has before it begins are no concern of ours: coverage imports many.
_NEWLY = """
import sys
before = set(sys.modules)
{program}
print(*sorted(set(sys.modules) - before))
"""

_OBJECT = """
from outlast import Outlast
Outlast(sys.argv[1])
"""

_HELP = """
from outlast.cli.main import cli
try:
    cli.main(["--help"])
except SystemExit:
    pass
print()
"""

_OPERATIONS = """
from outlast import Outlast
app = Outlast(sys.argv[1]).open()
before = set(sys.modules)
app.enqueue("work", {"a": 1.5}, id="t1", idempotency_key="k")
app.enqueue_many("work", [1, 2])
lease, other = app.claim("w", limit=2, wait=1)
lease.checkpoint("iteration_start", {"at": 1})
lease.complete({"b": 2})
other.fail("broken")
assert app.get("t1").wait(1) == {"b": 2}
app.close()
"""

NOT_FOR_AN_OBJECT = {
    "apsw", "asyncio", "click", "concurrent.futures", "ctypes", "decimal", "hashlib",
    "importlib.metadata", "json", "msgspec", "multiprocessing", "random", "rich", "socket",
    "subprocess", "tempfile", "tomllib", "outlast.app.aio", "outlast.cli", "outlast.store.commit",
    "outlast.store.opening", "outlast.store.ops", "outlast.store.sqlite", "outlast.store.store",
    "outlast.tasks.arguments", "outlast.worker",
}  # fmt: skip

NOT_FOR_THE_HELP = {
    "apsw", "asyncio", "dataclasses", "importlib.metadata", "json", "logging", "msgspec", "pathlib",
    "rich", "socket", "subprocess", "outlast.app", "outlast.cli.commands", "outlast.settings",
    "outlast.store",
}  # fmt: skip


def _newly(program: str, path: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _NEWLY.replace("{program}", program), str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("program", "unneeded"),
    [(_OBJECT, NOT_FOR_AN_OBJECT), (_HELP, NOT_FOR_THE_HELP)],
    ids=["object", "help"],
)
def test_what_only_later_steps_need_is_not_imported(
    program: str, unneeded: set[str], tmp_path: Path
) -> None:
    assert not _newly(program, tmp_path / "work.db") & unneeded


def test_an_open_store_imports_nothing_more_for_its_operations(tmp_path: Path) -> None:
    """A process that has run out of descriptors could not read the modules' files."""
    assert not _newly(_OPERATIONS, tmp_path / "work.db")
