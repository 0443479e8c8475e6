"""The trial of one mutant: a changed copy that still works must be found out by what it names."""

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from lab.mutants.catalogue import CatalogueError, Mutant, mutate
from lab.mutants.finding import ROOT, WORDS_KEPT, Ended, command_of, control_of, found_in

# What starting up, a last case and clearing away may take beyond the experiment's own time.
GRACE_SECONDS = 45.0
EXAMPLE_SECONDS = 90.0

# Where a process, and one started as a worker starts its store process, import the package from.
_WHERE = "import outlast; print(outlast.__file__)"
_WHERE_FROM = f"""
import subprocess, sys
{_WHERE}
program = "import sys; sys.path[:] = sys.argv[1:]; {_WHERE}"
subprocess.run([sys.executable, "-I", "-S", "-c", program, *sys.path], check=True)
"""


class Verdict(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    NOT_COUNTED = "does not count"


class Trial(msgspec.Struct, frozen=True):
    """The verdict on a mutant, what was said first, and how long its experiment took."""

    mutant: Mutant
    verdict: Verdict
    said: str
    seconds: float


class Workshop:
    """Where trials are held: what is copied and changed, the example it must pass, the controls.

    Workshops that share a folder, also those of other processes, share their controls.
    """

    def __init__(
        self,
        folder: Path,
        package: Path = ROOT / "src" / "outlast",
        example: Path = ROOT / "examples" / "first.py",
    ) -> None:
        self._folder = folder.resolve()
        self._package = package
        self._example = example

    def try_out(self, mutant: Mutant) -> Trial:
        """Change a copy, see that it still works, and look for the defect as the mutant says."""
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder:
            copy = Path(folder)
            try:
                self._make_copy(copy, mutant)
                self._check_copy(copy)
                self._check_control(mutant)
            except (CatalogueError, _DoesNotCount) as error:
                return Trial(mutant, Verdict.NOT_COUNTED, str(error), 0.0)
            return _judged(mutant, _looked_for(copy, mutant))

    def _make_copy(self, folder: Path, mutant: Mutant | None) -> None:
        # Times are kept, so compiled files of what is not changed stay valid and start-up fast.
        shutil.copytree(self._package, folder / "src" / self._package.name)
        (folder / "work").mkdir()
        if mutant is not None:
            mutate(folder / "src" / self._package.name, mutant)

    def _check_copy(self, folder: Path) -> None:
        """The copy must be what runs, and it must do what the first example shows."""
        where = _python(folder, ["-c", _WHERE_FROM], EXAMPLE_SECONDS)
        expected = str(folder / "src" / self._package.name / "__init__.py")
        if where.code != 0 or where.output.split("\n") != [expected, expected, ""]:
            raise _DoesNotCount(f"its copy is not what is imported: {where.last_words}")
        example = _python(folder, [str(self._example)], EXAMPLE_SECONDS)
        if example.code != 0:
            raise _DoesNotCount(f"{self._example.name} does not pass: {example.last_words}")

    def _check_control(self, mutant: Mutant) -> None:
        """The same experiment, or test, must find nothing in a copy that was not changed."""
        said = self._control(control_of(mutant))
        if said:
            raise _DoesNotCount(f"{mutant.found_by} is not silent without a defect: {said}")

    def _control(self, mutant: Mutant) -> str:
        key = repr((mutant.found_by, mutant.arguments, mutant.seconds))
        path = self._folder / f"control-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        with path.open("a+", encoding="utf-8") as file:
            # Whoever comes first runs it, and the others wait for its result.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            known = file.read()
            if not known:
                known = f"said:{self._run_control(mutant)}"
                file.write(known)
            return known.removeprefix("said:")

    def _run_control(self, mutant: Mutant) -> str:
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder:
            self._make_copy(Path(folder), None)
            ended = _looked_for(Path(folder), mutant)
        is_silent = ended.code == 0 and found_in(mutant, ended) == []
        return "" if is_silent else _first_words(mutant, ended)


class _DoesNotCount(Exception):
    """A mutant that proves nothing, and why."""


def _looked_for(folder: Path, mutant: Mutant) -> Ended:
    return _python(folder, command_of(mutant), mutant.seconds + GRACE_SECONDS)


def _judged(mutant: Mutant, ended: Ended) -> Trial:
    said = _first_words(mutant, ended)
    if ended.code == 1 and found_in(mutant, ended):
        return Trial(mutant, Verdict.KILLED, said, ended.seconds)
    if ended.code == 0 or ended.code is None:
        return Trial(mutant, Verdict.SURVIVED, said, ended.seconds)
    said = f"{mutant.found_by} itself ended with {ended.code}: {said}"
    return Trial(mutant, Verdict.NOT_COUNTED, said, ended.seconds)


def _first_words(mutant: Mutant, ended: Ended) -> str:
    found = found_in(mutant, ended)
    if found:
        return found[0][:WORDS_KEPT]
    if ended.code is None:
        return f"it was not done after {ended.seconds:.0f} s"
    return "nothing was found" if found == [] else ended.last_words


def _python(folder: Path, arguments: Sequence[str], timeout_seconds: float) -> Ended:
    """Run Python with the folder's copy before any other; nothing it started outlives it."""
    path = os.pathsep.join(filter(None, [str(folder / "src"), os.environ.get("PYTHONPATH")]))
    # The last lines of tests are read; nobody may shorten them.
    environment = os.environ | {
        "PYTHONPATH": path, "TMPDIR": str(folder / "work"), "COLUMNS": str(2 * WORDS_KEPT),
    }  # fmt: skip
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder / "work",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            is_over = _wait(process.pid, started + timeout_seconds)
        finally:
            # Not reaped yet, so the number of its group is still its own.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds = time.monotonic() - started
        output.seek(0)
        errors.seek(0)
        code = process.returncode if is_over else None
        return Ended(code, output.read(), errors.read(), seconds)


def _wait(pid: int, deadline: float) -> bool:
    """Whether a child ended in time; it is left to be reaped."""
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            return True
        time.sleep(0.02)
    return False
