"""Real workers, their store processes and isolated handlers, killed at random moments under load.

A worker acknowledges to nobody; what counts is what others can see. So what was seen to be done
before the kill must be done after it, every result must be that of an execution that returned it,
no attempt may run twice, and a death may cost only what its process had begun.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from outlast.app.app import Outlast
from outlast_lab.experiments.kill import jobs
from outlast_lab.experiments.kill.cases import InTurn, Judgement, Room, remember
from outlast_lab.experiments.kill.judging import complaints_of_file, troubles_of_going_on
from outlast_lab.experiments.kill.moments import wait_seconds
from outlast_lab.experiments.kill.speech import READY, say
from outlast_lab.experiments.kill.stage import Actor
from outlast_lab.judge.foreign_reader import Stored, copied_stored
from outlast_lab.record.grouping import await_that
from outlast_lab.record.history import Line, LineFile, read_lines
from outlast_lab.record.recorder import Witness
from outlast_lab.stage.process_table import has_ended, store_process_below

TARGETS = ("worker", "store process", "handler")

TASKS = 90
CONCURRENCY = 4
PATIENCE_SECONDS = 45

# One look into /proc can miss a process that is being started while it is taken.
_LOOKS_WITHOUT_ANY = 5
_BETWEEN_LOOKS_SECONDS = 0.01

IN_TURN = InTurn("random", TARGETS)


# On the stage


def stock(path: str, record: str) -> None:
    """Enqueue tasks of all three sorts, each of some milliseconds, on the record."""
    write = LineFile(record).write
    app = Outlast(path)
    for n, kind in enumerate(jobs.KINDS):
        ids = [f"{kind}-{k}" for k in range(TASKS // len(jobs.KINDS))]
        payloads = [{"milliseconds": (k + n) % 4} for k in range(len(ids))]
        Witness(app, "producer", write).enqueue_many(ids, payloads, kind=kind)
    app.close()


def work(path: str, trace: str) -> None:
    """Be a real worker until killed or told to stop."""
    os.environ[jobs.STORE_VARIABLE] = path
    os.environ[jobs.TRACE_VARIABLE] = trace
    say([READY, os.getpid()])
    app = Outlast(path)
    for kind in jobs.KINDS:
        app.functions.register(jobs.app.functions[kind])
    app.worker(name="w", concurrency=CONCURRENCY).run()
    app.close()
    os._exit(0)


# In the experiment


def try_case(room: Room, database: Path, text: str) -> Judgement:
    """Kill one of a worker's processes once work is done, and judge what the others make of it."""
    target, chance = IN_TURN.name_in(text), room.chance(text)
    trace = database.with_name("trace")
    room.stage.perform("stock", str(database), str(database.with_name("before.jsonl")))
    with room.stage.acting("work", str(database), str(trace)) as worker:
        seen = seen_done(database, at_least=chance.randint(1, TASKS // 3))
        seconds = chance.random() * 0.03
        is_killed = False
        if target == "worker":
            wait_seconds(seconds)
            worker.kill()
        else:
            find = {
                "store process": lambda: store_process_below(worker.pid),
                "handler": lambda: _handler(trace, worker.pid),
            }
            is_killed = kill_that(find[target], seconds)
            seen |= seen_done(database, at_least=TASKS - CONCURRENCY)
            _stop(worker)
    troubles = await_end_of_all(database)
    if target == "worker":
        is_killed = worker.death.signal == signal.SIGKILL
    remember(database)
    found = copied_stored(database)
    troubles += [*complaints_of_file(found), *_of_the_worker(found, seen, _traced(trace))]
    troubles += [*_charges(found, target), *worker.death.raised]
    if target != "worker" and worker.death.signal is not None:
        troubles.append(f"the worker died by signal {worker.death.signal} with its {target}")
    troubles += troubles_of_going_on(database, found)
    return Judgement(int(is_killed), troubles, len(seen), is_met=is_killed)


def _stop(worker: Actor) -> None:
    """Tell it to stop politely, and give it time."""
    worker.send(signal.SIGTERM)
    await_that(lambda: has_ended(worker.pid))
    if has_ended(worker.pid):
        worker.spared()


def seen_done(database: Path, at_least: int) -> set[str]:
    """The tasks that anybody could see to be done, once there are some; or when it takes long."""
    with closing(Outlast(database)) as looking:
        await_that(lambda: looking.counts()["completed"] >= at_least)
        return {task.id for task in looking.tasks("completed", limit=TASKS)}


def await_end_of_all(database: Path) -> list[str]:
    """Wait until a dead worker's store process and handlers are gone, which must be soon.

    Until then they may write, and the isolated ones hold the worker's lock.
    """
    ends_at = time.monotonic() + PATIENCE_SECONDS
    looks_without_any = 0
    while looks_without_any < _LOOKS_WITHOUT_ANY:
        left = list(_left_behind(database))
        looks_without_any = 0 if left else looks_without_any + 1
        if left and time.monotonic() >= ends_at:
            return [f"process {pid} outlives its worker" for pid in left]
        time.sleep(_BETWEEN_LOOKS_SECONDS)
    return []


def _left_behind(database: Path) -> Iterator[int]:
    """The processes that were started for the worker of this store."""
    wanted = f"{jobs.STORE_VARIABLE}={database}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            if wanted in environment and not has_ended(int(name)):
                yield int(name)


def kill_that(find: Callable[[], int | None], seconds: float) -> bool:
    """Find a process, wait, and kill it; whether one was there that had not ended by then.

    Who is found may be gone when its time has come: then the next one is taken.
    """
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < ends_at:
        pid = find()
        if pid is None:
            time.sleep(0.002)
            continue
        with suppress(ProcessLookupError), _described(pid) as descriptor:
            # The number may have passed to somebody else before it was described.
            if find() != pid:
                continue
            wait_seconds(seconds)
            if not has_ended(pid):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
    return False


@contextmanager
def _described(pid: int) -> Iterator[int]:
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _handler(trace: Path, worker_pid: int) -> int | None:
    """A process that a handler ran in, apart from the worker, and that was started for it."""
    wanted = f"{jobs.TRACE_VARIABLE}={trace}".encode()
    for pid in dict.fromkeys(
        int(one[3]) for one in reversed(_traced(trace)) if one[1].startswith("apart")
    ):
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if pid != worker_pid and wanted in environment and not has_ended(pid):
                return pid
    return None


def _traced(trace: Path) -> list[Line]:
    return read_lines(trace) if trace.exists() else []


def _of_the_worker(stored: Stored, seen: set[str], trace: list[Line]) -> Iterator[str]:
    for task_id in sorted(seen):
        if stored.tasks[task_id].status != "completed":
            yield f"{task_id} was seen completed and is {stored.tasks[task_id].status}"
    runs = Counter((task_id, attempt) for word, task_id, attempt, _ in trace if word == jobs.BEGUN)
    returned = {(one[1], one[2]) for one in trace if one[0] == jobs.RETURNS}
    for (ran, attempt), times in runs.items():
        if times > 1:
            yield f"attempt {attempt} of {ran} ran {times} times"
    for task_id, task in stored.tasks.items():
        claims = sum(move.reason == "claimed" for move in stored.moves[task_id])
        if sum(times for (ran, _), times in runs.items() if ran == task_id) > claims:
            yield f"{task_id} ran more often than it was claimed"
        if task.status == "completed":
            if (task_id, task.attempt) not in returned:
                yield f"{task_id} is completed and no execution returned"
            elif task.result != f'"{jobs.result_of(task_id, task.attempt)}"':
                yield f"{task_id} has the result {task.result}"


def _charges(stored: Stored, target: str) -> Iterator[str]:
    """What a death of a store process or handler may cost; a worker's is judged after recovery."""
    failures = sum(task.retry_count for task in stored.tasks.values())
    recoveries = sum(task.recovery_count for task in stored.tasks.values())
    if failures > (1 if target == "handler" else 0):
        yield f"{failures} failures were charged for a kill of the {target}"
    if recoveries:
        yield f"{recoveries} recoveries were charged for a kill of the {target}"


ACTS: dict[str, Callable[..., None]] = {"stock": stock, "work": work}
