"""The fork server of misuse: each case is played in a fork, and judged in another.

What a case opens, locks and breaks ends with its process, and a case that hangs is ended with all
that it started. Nothing of this outlives the laboratory: SIGTERM ends server and case, and the
kernel ends both when their parent is gone.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from outlast.host import processes
from outlast_lab.experiment import Broken
from outlast_lab.experiments.misuse.cases import CASES
from outlast_lab.experiments.misuse.scene import Case, NotHere, Scene
from outlast_lab.judge.foreign_reader import copied_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.judge.reopening import after_reopening
from outlast_lab.judge.row_rules import violations_of_file
from outlast_lab.record.history import read_history
from outlast_lab.stage.forks import ready_to_fork
from outlast_lab.stage.wire import Wire, serve

CASE_SECONDS = 60
_LOOK_SECONDS = 0.002
_LAST_WORDS = 1500

_steps: list[int] = []
"""The pid of the step that is under way, if one is; it is not reaped while it stands here."""


_wires: list[Wire] = []
"""How the laboratory asks; no case may keep it from seeing that the server has ended."""


def main(wire: Wire, parent_pid: int) -> None:
    """One case after another, each in a process of its own."""
    processes.die_with_parent(parent_pid)
    _wires.append(wire)
    signal.signal(signal.SIGTERM, _leave)
    # Now, for processes that give up their rights cannot read modules everywhere.
    ready_to_fork()
    serve(wire, {"play": lambda name, folder: _verdict(CASES[name], Path(folder))}.__getitem__)


def _leave(number: int, frame: FrameType | None) -> None:
    """What SIGTERM does: the step under way ends first, with all that it started."""
    for pid in _steps:
        _end(pid)
        os.waitpid(pid, 0)
    os._exit(0)


def _verdict(case: Case, folder: Path) -> dict[str, Any]:
    played = in_a_process(folder, "played", lambda: _play(case, folder))
    if played["broken"] or played["note"]:
        return played
    return in_a_process(folder, "judged", lambda: _judge(case, folder))


def _play(case: Case, folder: Path) -> list[str]:
    case.act(Scene(folder))
    return []


def _judge(case: Case, folder: Path) -> list[str]:
    """Read by a foreign reader first, then opened by Outlast, twice."""
    path, records = folder / "work.db", folder / "records"
    copies = [other for other in folder.glob("*/work.db") if other.is_file()]
    found = [one for other in copies for one in violations_of_file(copied_stored(other))]
    if case.judged != "nothing":
        stored = copied_stored(path)
        if case.judged == "all":
            found += violations(read_history(records), stored)
        else:
            found += violations_of_file(stored)
        found += after_reopening(path, read=copied_stored)
    return [str(one) for one in found]


def in_a_process(folder: Path, step: str, act: Callable[[], list[str]]) -> dict[str, Any]:
    """Run a step in a process group of its own; what came of it."""
    answer = folder / f"{step}.json"
    stage_pid = os.getpid()
    # No signal's handler may run between the step's beginning and its being known.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        processes.die_with_parent(stage_pid)
        _be_the_step(folder, answer, act)
    _steps.append(pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    status = _awaited(pid)
    with suppress(OSError):
        return dict(json.loads(answer.read_text()))
    how = "took too long" if status is None else f"ended with status {status}"
    said = (folder / "errors.txt").read_text(errors="replace")[-_LAST_WORDS:]
    return {"broken": [f"the process {how}: {said}"], "note": None}


def _be_the_step(folder: Path, answer: Path, act: Callable[[], list[str]]) -> None:
    """The forked process: it says what it found and ends as programs do."""
    os.setsid()
    for wire in _wires:
        wire.close()
    errors = os.open(folder / "errors.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(errors, 2)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    pid = os.getpid()
    said: dict[str, Any] = {"broken": [], "note": None}
    try:
        said["broken"] = act()
    except NotHere as error:
        said["note"] = str(error)
    except Broken as error:
        said["broken"] = [str(error)]
    except Exception:
        said["broken"] = [traceback.format_exc()[-_LAST_WORDS:]]
    if os.getpid() == pid:
        answer.write_text(json.dumps(said))
    sys.exit(0)


def _awaited(pid: int) -> int | None:
    """How a process ended; None if it had to be ended. Nothing that it started is left."""
    ends_at, status = time.monotonic() + CASE_SECONDS, None
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > ends_at:
            break
        time.sleep(_LOOK_SECONDS)
    else:
        status = 0
    _end(pid)
    _steps.remove(pid)
    _, ended = os.waitpid(pid, 0)
    return ended if status == 0 else None


def _end(pid: int) -> None:
    """Kill a step that is not reaped yet, and its group, which it may not have made yet."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
