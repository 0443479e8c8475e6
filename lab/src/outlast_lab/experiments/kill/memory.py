"""Out of memory: SQLite's allocations fail, the process's do, or the kernel's killer comes.

SQLite is kept to a little more memory than it has in use, so that it fails inside operations, at
another place for each limit. The process itself is kept to a little more than it has by a limit of
the kernel. And a process that grows past a limit is killed, as the kernel kills.
"""

import re
import resource
import signal
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import apsw

from outlast.errors import OutlastError
from outlast.host import proc_files
from outlast_lab.experiments.kill.cases import Cases, Judgement, Room, record_lines, remember
from outlast_lab.experiments.kill.judging import (
    acknowledged,
    complaints,
    of_the_dead,
    troubles_of_going_on,
)
from outlast_lab.experiments.kill.moments import history_in
from outlast_lab.experiments.kill.speech import LINE, PATIENCE_SECONDS, RAISED, SHORT, say
from outlast_lab.experiments.kill.victims import produces
from outlast_lab.judge.foreign_reader import copied_stored
from outlast_lab.record.history import ANSWERED, Line
from outlast_lab.record.scenarios import LIVES
from outlast_lab.record.set_clock import SetClock
from outlast_lab.stage.forks import in_a_fork

KIND = "memory"
ENGINE, PROCESS, KILLED = "engine", "process", "killed"
AFTER_DAYS = 2

# From where not even the opening fits to where all of a life does.
LIMITS_KIB = {ENGINE: (450, 1300), PROCESS: (16, 1500)}
KILLED_ABOVE_KIB = (5_000, 60_000)

_KIB = 1024
_PATIENCE_SECONDS = 30
_LIVES = ("enqueue", "claim", "settle", "heal", "keep", "in groups", "migrate")
# The driver itself could not start the threads of these.
_WITH_THREADS = frozenset({"in groups"})

_NAME = re.compile(rf"{KIND} (({ENGINE}|{PROCESS}) ({'|'.join(_LIVES)})/\d+ KiB|{KILLED} \d+)")


# On the stage


def starve(kind: str, life: str, database: str, limit_kib: int) -> None:
    """Live a life with too little memory, then without a limit."""
    path = Path(database)
    before = in_a_fork(partial(LIVES[life].before, path, _write), PATIENCE_SECONDS)
    assert before.error is None, before.error
    with_limit = _engine_limit if kind == ENGINE else _process_limit
    with_limit(limit_kib * _KIB)
    try:
        LIVES[life].live(path, _write)
    except (MemoryError, OutlastError):
        # The driver itself cannot go on: this life is over, as if it had been killed.
        with_limit(None)
        say([SHORT, life])


def _engine_limit(bytes_more: int | None) -> None:
    if bytes_more is None:
        apsw.hard_heap_limit(0)
        return
    apsw.shutdown()
    apsw.config(apsw.SQLITE_CONFIG_MEMSTATUS, True)
    apsw.initialize()
    apsw.hard_heap_limit(apsw.memory_used() + bytes_more)


def _process_limit(bytes_more: int | None) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if bytes_more is None:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        return
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + bytes_more, hard))


def _write(line: Line) -> None:
    say([LINE, line])


def hog(path: str, record: str, seed: float) -> None:
    """A producer whose program takes more and more memory while it works."""
    import threading

    def take() -> None:
        taken = []
        while True:
            taken.append(bytearray(256 * _KIB))
            time.sleep(0.001)

    threading.Thread(target=take, daemon=True).start()
    produces(path, record, seed)


ACTS: dict[str, Callable[..., None]] = {"starve": starve, "hog": hog}


# In the experiment


def cases(room: Room) -> Cases:
    """Every life with limits spread over what it needs, and hogs, without end."""
    for number in count(1):
        yield f"{KIND} {KILLED} {number}", try_killing
        for life in _LIVES:
            for kind in (ENGINE, PROCESS):
                if kind == ENGINE or life not in _WITH_THREADS:
                    yield _drawn(room, kind, life, number), try_starving


def _drawn(room: Room, kind: str, life: str, number: int) -> str:
    """The text of a case with a limit between where nothing fits and where all does."""
    least, most = LIMITS_KIB[kind]
    limit_kib = round(least * (most / least) ** room.chance(f"{kind} {life} {number}").random())
    return f"{KIND} {kind} {life}/{limit_kib} KiB"


def named(text: str) -> bool:
    """Whether a text names a case of this kind."""
    return _NAME.fullmatch(text) is not None


def try_named(room: Room, database: Path, text: str) -> Judgement:
    """Either kind of case."""
    return (try_killing if text.startswith(f"{KIND} {KILLED} ") else try_starving)(
        room, database, text
    )


def try_starving(room: Room, database: Path, text: str) -> Judgement:
    """Every answer must be honest, and with memory again everything can be finished."""
    _, kind, rest = text.split(" ", 2)
    life, _, limit = rest.removesuffix(" KiB").rpartition("/")
    said, _ = room.stage.perform("starve", kind, life, str(database), int(limit))
    raised = [what for word, what in said if word == RAISED]
    told = [what for word, what in said if word == LINE]
    record_lines(database, told)
    remember(database)
    lines = [_unanswered(line) for line in told]
    found = copied_stored(database)
    troubles = complaints(of_the_dead(line for line in lines if line), found)
    if database.exists():
        troubles += troubles_of_going_on(database, found, SetClock(AFTER_DAYS))
    refused = sum(_is_for_memory(line) for line in lines)
    is_met = refused > 0 or SHORT in (word for word, _ in said)
    return Judgement(0, [*raised, *troubles], refused=refused, is_met=is_met)


def _is_for_memory(line: Line) -> bool:
    """Whether a call met the limit: SQLite's word for it in an error of ours, or Python's."""
    return not line or (line[0] == ANSWERED and line[3] != "done" and "memory" in str(line[4]))


def _unanswered(line: Line) -> Line:
    """MemoryError is Python's and no answer: the call may have happened or not."""
    is_answer = line[0] == ANSWERED and line[3] == "raised"
    return [] if is_answer and str(line[4]).startswith("MemoryError") else line


def try_killing(room: Room, database: Path, text: str) -> Judgement:
    """A process is killed the moment it has taken more memory than it may."""
    chance = room.chance(text)
    record = database.with_name("hog.jsonl")
    more_kib = chance.uniform(*KILLED_ABOVE_KIB)
    with room.stage.acting("hog", str(database), str(record), chance.random()) as it:
        limit = _resident_kib(it.pid) + more_kib
        ends_at = time.monotonic() + _PATIENCE_SECONDS
        while 0 < _resident_kib(it.pid) < limit and time.monotonic() < ends_at:
            pass
        it.kill()
    remember(database)
    found = copied_stored(database)
    history = history_in(database.parent)
    troubles = [*it.death.raised, *complaints(history, found)]
    if database.exists():
        troubles += troubles_of_going_on(database, found)
    is_killed = it.death.signal == signal.SIGKILL
    return Judgement(int(is_killed), troubles, acknowledged(history), is_met=is_killed)


def _resident_kib(pid: int) -> int:
    """What a process has taken; 0 of one that is gone."""
    text = proc_files.read_text(f"/proc/{pid}/statm")
    return int(text.split()[1]) * resource.getpagesize() // _KIB if text else 0
