"""Subscribers that are killed with SIGKILL are told every event, at least once and in order."""

import os
from itertools import pairwise
from pathlib import Path

import pytest

from outlast import Outlast
from tests.events.conftest import wait_until
from tests.support.children import Child

pytestmark = pytest.mark.slow

PAGE = 7


def _listens(path: str, diary: str, point: str, nth: int, page: int) -> None:
    """Writes down what it is told, and dies at the nth passing of a point, if it comes to that."""
    import os

    from outlast import Event, Outlast, probes
    from outlast.app import event_delivery
    from tests.support.childside import die, say

    event_delivery.PAGE = page
    passed = {"function": 0}

    def pass_by(name: str) -> None:
        passed[name] = passed.get(name, 0) + 1
        if name == point and passed[name] == nth:
            die()

    file = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(event: Event) -> None:
        os.write(file, f"{event.cursor} {event.kind} {event.task_id}\n".encode())
        pass_by("function")

    probes.arm(pass_by)
    with Outlast(path) as app, app.subscribe(write, "audit", after="0.0") as subscription:
        say(subscription.catch_up(60))


def _a_history(app: Outlast) -> None:
    app.enqueue_many("work", range(12), id=[f"t{n}" for n in range(12)])
    leases = app.claim("w", limit=8)
    app.complete_many([(lease, None) for lease in leases[:5]])
    for lease in leases[5:]:
        lease.release()
    app.cancel("t11")


def _told_of_tasks(diary: Path) -> list[str]:
    return [line for line in diary.read_text().splitlines() if " task." in line]


POINTS = [
    "subscriber.telling",
    "function",
    "subscriber.told",
    "cursor.begun",
    "cursor.written",
    "cursor.committed",
]


@pytest.mark.proves("OBS-05")
@pytest.mark.parametrize("point", POINTS)
def test_one_that_is_killed_anywhere_is_told_everything_in_order(
    database: Path, tmp_path: Path, point: str
) -> None:
    """Before its function, in it, after it, and around the commit that moves its cursor."""
    diary = tmp_path / "diary"
    with Outlast(database) as app:
        _a_history(app)
        whole = [
            f"{event.cursor} {event.kind} {event.task_id}" for event in app.events(kinds="task.*")
        ]
    deaths, starts = 0, [0]
    for nth in (1, 2, 3, PAGE + 2, 0):
        with Child(_listens, database, diary, point, nth, PAGE) as child:
            said = child.hear_all()
        deaths += said != [True]
        starts.append(len(_told_of_tasks(diary)) if diary.exists() else 0)
    assert deaths >= 3, "the point must be met"
    told = _told_of_tasks(diary)
    parts = [told[begin:end] for begin, end in pairwise(starts)]
    reached = 0
    for part in parts:
        if not part:
            continue
        begins = whole.index(part[0])
        assert part == whole[begins : begins + len(part)], "in order, nothing left out"
        assert reached - PAGE <= begins <= reached, "no gap, and few are told again"
        reached = begins + len(part)
    assert reached == len(whole)


def _tells_for_ever(path: str, diary: str, name: str) -> None:
    import os

    from outlast import Outlast
    from tests.support.childside import hear, say

    file = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(event: object) -> None:
        os.write(file, f"{os.getpid()} {event.task_id}\n".encode())  # type: ignore[attr-defined]

    app = Outlast(path)
    app.subscribe(write, name, kinds="task.enqueued")
    say(os.getpid())
    hear()


def _tellers(diary: Path) -> list[list[str]]:
    return [line.split() for line in diary.read_text().splitlines()] if diary.exists() else []


def test_of_two_processes_with_one_name_one_tells_and_the_other_takes_over_when_it_dies(
    database: Path, tmp_path: Path
) -> None:
    diary = tmp_path / "diary"
    with (
        Outlast(database) as app,
        Child(_tells_for_ever, database, diary, "audit") as first,
    ):
        first.hear()
        app.enqueue("work", id="first")
        wait_until(lambda: len(_tellers(diary)) == 1)
        with Child(_tells_for_ever, database, diary, "audit") as second:
            second.hear()
            app.enqueue_many("work", range(50), id=[f"a{n}" for n in range(50)])
            wait_until(lambda: len(_tellers(diary)) == 51)
            assert {int(pid) for pid, _ in _tellers(diary)} == {first.pid}
            wait_until(lambda: app.subscribers()[0].behind == 0)
            first.kill()
            app.enqueue_many("work", range(50), id=[f"b{n}" for n in range(50)])
            wait_until(lambda: len(_tellers(diary)) == 101)
            later = _tellers(diary)[51:]
            assert later == [[str(second.pid), f"b{n}"] for n in range(50)]


def test_other_names_do_not_wait_for_each_other(database: Path, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    with (
        Outlast(database) as app,
        Child(_tells_for_ever, database, diary, "one") as one,
        Child(_tells_for_ever, database, diary, "two") as two,
    ):
        one.hear(), two.hear()
        app.enqueue("work", id="a")
        wait_until(lambda: len(_tellers(diary)) == 2)
        assert {int(pid) for pid, _ in _tellers(diary)} == {one.pid, two.pid}


def _forks_and_tells(path: str, diary: str) -> None:
    import os
    import time

    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    subscription = app.subscribe(lambda event: None, "audit")
    app.enqueue("work")
    assert subscription.catch_up(60)
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    say(child)
    hear()


def test_a_forked_child_does_not_keep_the_turn_of_its_dead_parent(
    database: Path, tmp_path: Path
) -> None:
    """What it inherited is closed; or nobody would be told anything until the child ends."""
    diary = tmp_path / "diary"
    with Outlast(database) as app, Child(_forks_and_tells, database, diary) as parent:
        forked = parent.hear()
        try:
            parent.kill()
            with Child(_tells_for_ever, database, diary, "audit") as heir:
                heir.hear()
                app.enqueue("work", id="heirloom")
                wait_until(lambda: len(_tellers(diary)) == 1)
        finally:
            os.kill(forked, 9)


def _works(path: str, worker: str, rounds: int) -> None:
    from outlast import Outlast
    from tests.support.childside import say

    with Outlast(path) as app:
        for n in range(rounds):
            app.enqueue("work", id=f"{worker}-{n}")
            for lease in app.claim(worker, limit=2):
                if n % 5:
                    lease.complete()
                else:
                    lease.release()
    say()


@pytest.mark.proves("OBS-05")
def test_the_order_holds_while_several_processes_work_and_the_subscriber_is_killed(
    database: Path, tmp_path: Path
) -> None:
    """Moves by position, creations by number, and nothing of a task before its creation."""
    diary = tmp_path / "diary"
    Outlast(database).open().close()
    with (
        Child(_works, database, "w1", 60) as one,
        Child(_works, database, "w2", 60) as two,
        Child(_works, database, "w3", 60) as three,
    ):
        for nth in (5, 40, 80):
            with Child(_listens, database, diary, "function", nth, PAGE) as listening:
                listening.hear_all()
        for worker in (one, two, three):
            worker.hear()
    with Child(_listens, database, diary, "", 0, PAGE) as listening:
        assert listening.hear_all() == [True]
    with Outlast(database) as app:
        events = app.events(kinds="task.*", limit=10_000)
    lines = _told_of_tasks(diary)
    firsts = list(dict.fromkeys(tuple(line.split()[1:]) + _place(line) for line in lines))
    told = [one for one in firsts if one[0] != "task.enqueued"]
    assert [pos for *_, pos in told] == [e.pos for e in events if e.kind != "task.enqueued"]
    created = [one[1] for one in firsts if one[0] == "task.enqueued"]
    assert created == [event.task_id for event in events if event.kind == "task.enqueued"]
    assert len(created) == 180
    seen = set()
    for kind, task_id, *_ in firsts:
        assert kind == "task.enqueued" or task_id in seen, f"{kind} of {task_id} came too early"
        seen.add(task_id)


def _place(line: str) -> tuple[int, ...]:
    """Where a move stands; a creation has no position of its own, and is known by its task."""
    cursor, kind, _ = line.split()
    return () if kind == "task.enqueued" else (int(cursor.split(".")[0]),)
