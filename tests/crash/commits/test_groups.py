"""Operations that share a transaction share its fate, and nothing else."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from outlast import (
    AsyncOutlast,
    IdempotencyConflict,
    InvalidInput,
    LeaseLost,
    Outlast,
    StoreError,
    TaskNotFound,
    probes,
)
from outlast.app.aio.lease import AsyncLease
from outlast_lab.experiments.chaos.crowd import result_of
from outlast_lab.experiments.kill.writes import HALF, WHOLE
from outlast_lab.judge.foreign_reader import foreign_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.record.history import read_history
from outlast_lab.record.recorder import Witness
from tests.crash.commits.test_crowd import drain, refusals_but_of_lost_leases
from tests.store.hand import engine_of
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows, foreign_statuses
from tests.support.grouping import PATIENCE_SECONDS, in_one_group

EIO, ENOSPC = 5, 28


@pytest.fixture
def passed() -> Iterator[list[str]]:
    """Every probe that was passed."""
    names: list[str] = []
    probes.arm(names.append)
    yield names
    probes.arm(None)


def adding(app: Outlast, task_id: str, **options: Any) -> Callable[[], str]:
    return lambda: app.enqueue("work", id=task_id, **options).id


def test_one_members_error_is_its_own_among_merged_enqueues(
    app: Outlast, database: Path, passed: list[str]
) -> None:
    app.enqueue("work", id="old", idempotency_key="k")
    answers = in_one_group(
        app, "first",
        adding(app, "a"), adding(app, "old"), adding(app, "b", idempotency_key="k"),
        adding(app, "c", payload=1, idempotency_key="k"), adding(app, "d"),
        adding(app, "d"), adding(app, "e", idempotency_key="n"),
        adding(app, "f", idempotency_key="n"),
        lambda: app.enqueue_many("work", [1, 2, 3], id=["m1", "a", "m3"]),
        lambda: app.enqueue_many("work", [1, 2], id=["n1", "n2"]),
    )  # fmt: skip
    assert passed.count("group.committed") == 1
    a, old, b, c, d, twin, e, f, many, more = answers
    assert (a, b, d, e, f, more) == ("a", "old", "d", "e", "e", ["n1", "n2"])
    assert isinstance(c, IdempotencyConflict)
    for refused, task_id in ((old, "old"), (twin, "d"), (many, "a")):
        assert isinstance(refused, InvalidInput)
        assert f"id '{task_id}' exists already" in str(refused)
    assert set(foreign_statuses(database)) == {"old", "first", "a", "d", "e", "n1", "n2"}
    assert_sound(database)


def test_one_members_error_is_its_own_among_merged_settles(
    app: Outlast, database: Path, passed: list[str]
) -> None:
    app.enqueue_many("work", range(5), id=list("abcde"))
    leases = {lease.task_id: lease for lease in app.claim("w", limit=5)}
    app.cancel("c")
    answers = in_one_group(
        app, "first",
        lambda: leases["a"].complete("a"), lambda: leases["c"].complete("of a stale lease"),
        lambda: leases["b"].fail("no", retry=False), leases["d"].release,
        lambda: leases["a"].complete("once more"), leases["c"].renew,
        lambda: leases["c"].checkpoint("tool_executed", 1),
        lambda: leases["e"].checkpoint("tool_executed", 1).sequence_number,
        lambda: app.cancel("nobody"),
    )  # fmt: skip
    assert passed.count("group.committed") == 1
    a, stale, b, d, once_more, renewed, noted, number, nobody = answers
    assert (a, b, d, once_more, number) == (True, True, True, False, 1)
    assert [type(one) for one in (stale, renewed, noted, nobody)] == [
        LeaseLost, LeaseLost, LeaseLost, TaskNotFound
    ]  # fmt: skip
    found = foreign_rows(database, "SELECT id, status, result FROM tasks ORDER BY id")
    assert found == [
        ["a", "completed", '"a"'], ["b", "failed", None], ["c", "cancelled", None],
        ["d", "pending", None], ["e", "running", None], ["first", "pending", None],
    ]  # fmt: skip
    assert_sound(database)


def test_a_group_in_which_everybody_errs_stores_nothing_and_tells_each_why(
    app: Outlast, database: Path, passed: list[str]
) -> None:
    app.enqueue("work", id="old")
    answers = in_one_group(app, "first", *[adding(app, "old")] * 3, lambda: app.cancel("nobody"))
    assert "group.begun" in passed
    assert [type(one) for one in answers] == [InvalidInput] * 3 + [TaskNotFound]
    assert set(foreign_statuses(database)) == {"old", "first"}


def test_a_database_that_is_full_fails_who_needs_the_space_and_nobody_else(
    app: Outlast, database: Path, passed: list[str]
) -> None:
    app.open()
    writer = engine_of(app)._database.writer.connection
    small = [adding(app, f"small {n}") for n in range(8)]
    large = adding(app, "large", payload="x" * 400_000)
    app.enqueue("work", id="before")
    writer.pragma("max_page_count", writer.pragma("page_count") + 20)
    answers = in_one_group(app, "first", *small[:4], large, *small[4:])
    assert isinstance(answers.pop(4), StoreError)
    assert answers == [f"small {n}" for n in range(8)]
    assert passed.count("group.committed") == 1
    assert set(foreign_statuses(database)) == {"before", "first", *answers}
    assert app.enqueue("work", id="after").id == "after"
    assert_sound(database)


def _forms_a_group_on_a_failing_disk(
    path: str, ids: list[str], code: int, between: list[str], at: str
) -> None:
    """Between two probes the log cannot be written; a small cache writes it early."""
    from outlast import OutcomeUnknown, Outlast, probes
    from outlast_lab.experiments.kill.writes import watch_writes
    from tests.store.hand import engine_of
    from tests.support.childside import say
    from tests.support.grouping import in_one_group

    passed: list[str] = []
    failing = False

    def spoil(name: str, point: str, written: bytes) -> int:
        is_frame = name.endswith("-wal") and len(written) > 24
        return code if failing and is_frame and point == at else 0

    def look(name: str) -> None:
        nonlocal failing
        failing = name == between[0] or (failing and name != between[1])
        passed.append(name)

    watch_writes(spoil)
    app = Outlast(path).open()
    engine_of(app)._database.writer.connection.pragma("cache_size", 50)
    probes.arm(look)
    answers = in_one_group(
        app,
        "first",
        *[
            lambda one=one: app.enqueue("work", "x" * 900_000 * (one == "large"), id=one).id
            for one in ids
        ],
    )
    failing = False
    probes.arm(None)
    words = ["unknown" if isinstance(one, OutcomeUnknown) else str(one) for one in answers]
    say([words, passed.count("group.begun"), passed.count("group.committed")])
    say([app.resolve(one) is not None for one in ids])
    say(app.enqueue("work", id="after").id)
    app.close()


@pytest.mark.parametrize("fifth", ["e", "a"], ids=["merged", "one by one"])
@pytest.mark.parametrize("code", [EIO, ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_disk_that_fails_in_the_middle_of_a_group_fails_who_met_it_and_nobody_else(
    database: Path, code: int, fifth: str
) -> None:
    """It rolls the whole transaction back, so what ran before is run again."""
    ids = ["a", "b", "large", "c", fifth, "d"]
    fault = (code, ["group.begun", "group.written"], HALF)
    with Child(_forms_a_group_on_a_failing_disk, database, ids, *fault) as child:
        (answers, begun, committed), there, after = child.hear_all()
        assert child.wait() == 0, child.error()
    met_it, of_the_fifth = answers.pop(2), answers.pop(3)
    assert answers == ["a", "b", "c", "d"]
    assert met_it.startswith("enqueue failed")
    assert of_the_fifth == "e" if fifth == "e" else "exists already" in of_the_fifth
    assert there == [True, True, False, True, True, True]
    assert (begun, committed) == (3, 1), "all at once, one by one, and without who met it"
    assert set(foreign_statuses(database)) == {"first", "a", "b", "c", "d", fifth, after}
    assert_sound(database)


@pytest.mark.parametrize("fifth", ["e", "a"], ids=["merged", "one by one"])
@pytest.mark.parametrize(
    ("code", "at"), [(EIO, HALF), (EIO, WHOLE), (ENOSPC, HALF)], ids=["torn", "whole", "full"]
)
def test_when_a_groups_commit_fails_nobody_is_told_more_than_is_known(
    database: Path, code: int, at: str, fifth: str
) -> None:
    """Not even the one whose id was taken: it was taken by another of the same group."""
    ids = ["a", "b", "large", "c", fifth, "d"]
    fault = (code, ["group.written", "group.committed"], at)
    with Child(_forms_a_group_on_a_failing_disk, database, ids, *fault) as child:
        (answers, _, _), there, after = child.hear_all()
        assert child.wait() == 0, child.error()
    assert answers == ["unknown"] * 6
    assert len(set(there)) == 1, "all of a group, or nothing"
    assert set(foreign_statuses(database)) == {"first", after}.union(ids if there[0] else [])
    assert_sound(database)


async def work_in_coroutines(aio: AsyncOutlast, witness: Witness, stop: threading.Event) -> None:
    """The crowd's work, done by coroutines."""

    async def one(name: str) -> None:
        for number in count():
            if stop.is_set():
                return
            task_id = f"{name}:{number}"
            asked = {"ids": [task_id], "payloads": [None], "priority": number % 3}
            enqueue = aio.enqueue("work", id=task_id, priority=number % 3)
            await witness.acall("enqueue", asked, enqueue, lambda task: [task.id])
            claim = aio.claim(witness.worker, limit=2)
            for lease in await witness.acall("claim", {"limit": 2}, claim, _handed_out) or []:
                result = result_of(witness.worker, lease.token)
                held = {"ids": [lease.task_id], "token": lease.token, "result": result}
                await witness.acall("complete", held, lease.complete(result), bool)

    async with aio:
        await asyncio.gather(*(one(f"{witness.worker} coroutine {k}") for k in range(8)))


def _handed_out(leases: list[AsyncLease]) -> list[Any]:
    return [[one.task_id, one.token, one.attempt, one.lease.lease_ms] for one in leases]


def _works_by_threads_and_coroutines(path: str, folder: str, worker: str) -> None:
    import asyncio
    import threading

    from outlast import AsyncOutlast, Outlast
    from outlast_lab.record.history import LineFile
    from outlast_lab.record.recorder import Witness
    from tests.crash.commits.test_crowd import work_until
    from tests.crash.commits.test_groups import work_in_coroutines
    from tests.support.childside import hear, say

    record = LineFile(f"{folder}/{worker}.jsonl")
    witness, stop = Witness(Outlast(path).open(), worker, record.write), threading.Event()
    crowd = [
        threading.Thread(target=work_until, args=(stop, witness, f"{worker}.{n}")) for n in range(4)
    ]
    coroutines = work_in_coroutines(AsyncOutlast(path), witness, stop)
    crowd.append(threading.Thread(target=asyncio.run, args=(coroutines,)))
    for one in crowd:
        one.start()
    say("at work")
    hear()
    stop.set()
    for one in crowd:
        one.join()
    witness.close()


@pytest.mark.slow
def test_threads_coroutines_and_processes_mixed_lose_nothing_and_do_nothing_twice(
    database: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "histories"
    folder.mkdir()
    with ExitStack() as stack:
        children = [
            stack.enter_context(Child(_works_by_threads_and_coroutines, database, folder, f"p{n}"))
            for n in range(3)
        ]
        assert [child.hear() for child in children] == ["at work"] * 3
        await_records(folder, 3000)
        for child in children:
            child.say("enough")
        assert [child.error() for child in children if child.wait()] == []
    drain(database, folder)
    history, stored = read_history(folder), foreign_stored(database)
    assert refusals_but_of_lost_leases(history) == []
    assert violations(history, stored)[:5] == []
    assert {task.status for task in stored.tasks.values()} <= {"completed", "failed"}


def await_records(folder: Path, at_least: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sum(path.read_bytes().count(b"\n") for path in folder.iterdir()) < at_least:
        assert time.monotonic() < deadline, "they do too little"
        time.sleep(0.05)
