"""Commands of the command line, killed at random moments: what they had printed must be so.

A command prints when it is done. So a line on its standard output is its acknowledgement.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from importlib import import_module, reload
from pathlib import Path
from typing import NamedTuple

from outlast.app.app import Outlast
from outlast_lab.experiments.kill import jobs, workers
from outlast_lab.experiments.kill.cases import InTurn, Judgement, Room, remember
from outlast_lab.experiments.kill.judging import complaints, troubles_of_going_on
from outlast_lab.experiments.kill.moments import history_in, wait_seconds
from outlast_lab.experiments.kill.speech import READY, say
from outlast_lab.experiments.kill.stage import Actor
from outlast_lab.judge.foreign_reader import Stored, copied_stored
from outlast_lab.judge.operator_rules import FORCE_MANY
from outlast_lab.record.history import Call, LineFile, host_seconds
from outlast_lab.record.recorder import Witness
from outlast_lab.record.scenarios import of_an_older_library

_BY = "shell"
TASKS = 6

# A moment is drawn from the start of a command to a little after its end, as it was rehearsed.
_PAST_THE_END = 1.2
# This part of them is killed as soon as they have printed something.
_KILLED_FOR_THEIR_WORD = 0.4

# The command line stands above the laboratory, which finds it by its name as a shell does.
_PROGRAM = "outlast.cli.main"
_VERBS = ("enqueue", "task_changes", "task", "queue", "store", "worker", "up")


class Command(NamedTuple):
    """What there is before, the words of the command, and what its output promises."""

    before: str
    words: Sequence[str]
    promises: Callable[[str, Stored], Iterable[str]] = lambda printed, stored: ()
    asks: Callable[[str], list[Call]] = lambda printed: []
    is_endless: bool = False


# On the stage


def with_tasks(path: str, record: str) -> None:
    """Tasks that wait, and tasks that are final."""
    one = Witness(Outlast(path), "before", LineFile(record).write)
    one.enqueue_many([f"t-{n}" for n in range(2 * TASKS)], list(range(2 * TASKS)))
    one.complete_many([(lease, None) for lease in one.claim(limit=TASKS)])
    one.close()


def older(path: str, record: str) -> None:
    """A store that lacks a migration."""
    of_an_older_library(Path(path), LineFile(record).write)


def run_command(path: str, printed: str, words: list[str]) -> None:
    """Be the command, with its output in a file, until killed or done."""
    os.environ[jobs.STORE_VARIABLE] = path
    os.environ[jobs.TRACE_VARIABLE] = f"{printed} by handlers"
    # Imported when the stage began, before there was a store for it.
    reload(jobs)
    root = import_module(_PROGRAM).cli
    for verb in _VERBS:
        import_module(f"outlast.cli.commands.{verb}")
    say([READY, os.getpid()])
    output = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    sys.stdin = open(os.devnull)  # noqa: SIM115 - for the rest of this process
    try:
        root.main([word.replace("STORE", path) for word in words])
    except SystemExit as leaving:
        os._exit(leaving.code if isinstance(leaving.code, int) else 1)


# What output promises


def _tasks_are(status: str, word: str) -> Callable[[str, Stored], Iterator[str]]:
    def promised(printed: str, stored: Stored) -> Iterator[str]:
        for line in _lines(printed):
            task_id = line.split()[0]
            if word in line and stored.tasks[task_id].status != status:
                yield f"the command said {line!r} and it is {stored.tasks[task_id].status}"

    return promised


def _clones_are_there(printed: str, stored: Stored) -> Iterator[str]:
    for line in _lines(printed):
        original, _, clone = line.partition(" runs again as ")
        if clone not in stored.tasks or stored.tasks[clone].retry_of != original:
            yield f"the command said {line!r} and there is no such task"


def _queue_is_paused(printed: str, stored: Stored) -> Iterator[str]:
    row = [row for row in stored.content.get("queues", []) if row[0] == "default"]
    if "is paused" in printed and not (row and row[0][1]):
        yield f"the command said {printed!r} and the queue is {row}"


def _schema_is_new(printed: str, stored: Stored) -> Iterator[str]:
    if "The schema is version" in printed:
        version = int(printed.rstrip(".\n").rpartition(" ")[2])
        if (found := len(stored.content["migrations"])) != version:
            yield f"the command said version {version} and {found} migrations are there"


def _lines(printed: str) -> list[str]:
    return [line.rstrip("\n") for line in printed.splitlines(keepends=True) if line.endswith("\n")]


# What was asked, for the history


def _asks(
    verb: str, *task_ids: str, payloads: Sequence[object] = ()
) -> Callable[[str], list[Call]]:
    def asked(printed: str) -> list[Call]:
        lines = "\n".join(_lines(printed))
        more = {"payloads": list(payloads)} if payloads else {"by": _BY}
        calls = [Call(_BY, verb, {"ids": [one], **more}, host_seconds(), 0) for one in task_ids]
        for call, task_id in zip(calls, task_ids, strict=True):
            if task_id in lines and verb != "retry":
                call.outcome, call.answered_at = "done", host_seconds()
                call.value = [task_id] if verb == "enqueue" else True
        return calls

    return asked


def _forces(action: str, *task_ids: str) -> Callable[[str], list[Call]]:
    """One call for all of them; what it prints, it prints when all are done."""

    def asked(printed: str) -> list[Call]:
        given = {"ids": list(task_ids), "action": action, "by": _BY}
        call = Call(_BY, FORCE_MANY, given, host_seconds(), 0)
        if _lines(printed):
            call.outcome, call.answered_at = "done", host_seconds()
            call.value = [[one, True, None] for one in task_ids]
        return [call]

    return asked


def _pauses(printed: str) -> list[Call]:
    call = Call(_BY, "pause", {"queue": "default", "by": _BY}, host_seconds(), 0)
    if _lines(printed):
        call.outcome, call.answered_at, call.value = "done", host_seconds(), True
    return [call]


_WAITING = [f"t-{n}" for n in range(TASKS, 2 * TASKS)]
_FINISHED = [f"t-{n}" for n in range(TASKS)]

_ENQUEUE = ["--store", "STORE", "enqueue", "work", '{"n": 1}', "--id", "c-1"]

COMMANDS = {
    "enqueue": Command(
        "with_tasks",
        _ENQUEUE,
        asks=_asks("enqueue", "c-1", payloads=[{"n": 1}]),
    ),
    "first enqueue": Command(
        "",
        _ENQUEUE,
        asks=_asks("enqueue", "c-1", payloads=[{"n": 1}]),
    ),
    "task cancel": Command(
        "with_tasks",
        ["--store", "STORE", "task", "cancel", *_WAITING, "--by", _BY],
        _tasks_are("cancelled", "is cancelled"),
        _asks("cancel", *_WAITING),
    ),
    "task retry": Command(
        "with_tasks",
        ["--store", "STORE", "task", "retry", *_FINISHED, "--by", _BY],
        _clones_are_there,
        _asks("retry", *_FINISHED),
    ),
    "task force": Command(
        "with_tasks",
        ["--store", "STORE", "task", "force", "fail", *_WAITING, "--by", _BY],
        _tasks_are("failed", "is failed"),
        _forces("fail", *_WAITING),
    ),
    "queue pause": Command(
        "with_tasks",
        ["--store", "STORE", "queue", "pause", "default", "--by", _BY],
        _queue_is_paused,
        _pauses,
    ),
    "store migrate": Command("older", ["--store", "STORE", "store", "migrate"], _schema_is_new),
    "worker run": Command(
        "stock",
        ["worker", "run", "outlast_lab.experiments.kill.jobs:app", "--name", "w"],
        is_endless=True,
    ),
}

IN_TURN = InTurn("random command", COMMANDS)

ACTS: dict[str, Callable[..., None]] = {
    "with_tasks": with_tasks,
    "older": older,
    "command": run_command,
}


# In the experiment


def try_case(room: Room, database: Path, text: str) -> Judgement:
    """Kill one command, hold what it printed against the store, and go on."""
    name = IN_TURN.name_in(text)
    command, chance = COMMANDS[name], room.chance(text)
    output = database.with_name("output")
    seconds = chance.random() * _PAST_THE_END * seconds_of(room, name)
    # What was printed is only worth something if some are killed between that and their end.
    is_for_its_word = not command.is_endless and chance.random() < _KILLED_FOR_THEIR_WORD
    with _begun(room, command, database) as it:
        if is_for_its_word:
            _await_a_word(output, 2 * seconds_of(room, name))
        else:
            wait_seconds(seconds)
        it.kill()
    lingering = workers.await_end_of_all(database)
    remember(database)
    printed = output.read_text(encoding="utf-8") if output.exists() else ""
    history = history_in(database.parent)
    history.calls += command.asks(printed)
    found = copied_stored(database, with_content=True)
    troubles = [
        *complaints(history, found),
        *command.promises(printed, found),
        *it.death.raised,
        *lingering,
    ]
    if database.exists():
        troubles += troubles_of_going_on(database, found)
    is_killed = it.death.signal == signal.SIGKILL
    return Judgement(int(is_killed), troubles, len(_lines(printed)), is_met=is_killed)


def _await_a_word(output: Path, most_seconds: float) -> None:
    ends_at = time.monotonic() + most_seconds
    while time.monotonic() < ends_at:
        with suppress(FileNotFoundError):
            if output.stat().st_size:
                return


def seconds_of(room: Room, name: str) -> float:
    """How long a command takes that nobody kills; a worker, until it has done all there is."""
    if name not in room.durations:
        command = COMMANDS[name]
        with room.fresh(f"rehearsal of {name}") as database:
            with _begun(room, command, database) as it:
                begun_at = time.monotonic()
                if command.is_endless:
                    workers.seen_done(database, at_least=workers.TASKS)
                else:
                    it.spared()
            room.durations[name] = time.monotonic() - begun_at
            workers.await_end_of_all(database)
    return room.durations[name]


def _begun(room: Room, command: Command, database: Path) -> AbstractContextManager[Actor]:
    """What there is before, and the command under way."""
    if command.before:
        record = str(database.with_name("before.jsonl"))
        room.stage.perform(command.before, str(database), record)
    output = str(database.with_name("output"))
    return room.stage.acting("command", str(database), output, list(command.words))
