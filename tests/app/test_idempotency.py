from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from outlast import IdempotencyConflict, InvalidInput, Outlast
from outlast.testing import ManualClock
from tests.support.children import Child
from tests.support.foreign import foreign_rows

RACERS = 8


def _races(path: str, name: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path).open()
    say("ready")
    while key := hear():
        task = app.enqueue("pay", {"amount": 5}, id=f"{name}-{key}", idempotency_key=key)
        claimed = [lease.task_id for lease in app.claim(name, limit=9)]
        say([task.id, claimed])


@pytest.mark.proves("IDM-03")
def test_of_eight_racing_processes_one_makes_the_task_and_one_executes_it(database: Path) -> None:
    Outlast(database).open().close()
    with ExitStack() as stack:
        racers = [stack.enter_context(Child(_races, database, f"r{n}")) for n in range(RACERS)]
        assert {racer.hear() for racer in racers} == {"ready"}
        for race in range(10):
            for racer in racers:
                racer.say(f"key{race}")
            answers = [racer.hear() for racer in racers]
            (winner,) = {task_id for task_id, _ in answers}
            assert [one for _, claimed in answers for one in claimed] == [winner]
    assert foreign_rows(database, "SELECT count(*) FROM tasks") == [[10]]
    assert foreign_rows(database, "SELECT count(*) FROM task_keys") == [[10]]


@pytest.mark.proves("IDM-04", "IDM-12")
def test_ten_submissions_are_one_task_one_run_and_one_answer(app: Outlast) -> None:
    runs = 0
    answers = []
    for n in range(10):
        payload = {"a": 1, "b": 2} if n % 2 else {"b": 2, "a": 1}
        task = app.enqueue("pay", payload, idempotency_key="order-17")
        for lease in app.claim("w"):
            runs += 1
            lease.complete({"receipt": runs})
        answers.append((task.id, app.get(task.id).result))
    assert runs == 1
    ((task_id, answer),) = {(task_id, answer["receipt"]) for task_id, answer in answers}
    assert answer == 1
    assert app.counts()["completed"] == 1
    assert app.keys(task_id)[0].response == {"receipt": 1}


@pytest.mark.proves("IDM-05")
def test_another_payload_or_kind_under_the_same_key_is_a_conflict(app: Outlast) -> None:
    task = app.enqueue("pay", {"amount": 5}, idempotency_key="k")
    for kind, payload in [("pay", {"amount": 6}), ("refund", {"amount": 5}), ("pay", None)]:
        with pytest.raises(IdempotencyConflict, match=rf"'k' .*task {task.id}"):
            app.enqueue(kind, payload, idempotency_key="k")
    (key,) = app.keys(task.id)
    assert key.request_hash.startswith("sha256:")
    assert len(key.request_hash) == len("sha256:") + 64
    assert app.counts()["pending"] == 1


@pytest.mark.proves("IDM-06")
def test_a_key_lives_a_day_unless_told_otherwise(
    app: Outlast, make_app: Callable[..., Outlast]
) -> None:
    for one, lives in ((app, timedelta(days=1)), (make_app(idempotency_ttl_seconds=60), None)):
        task = one.enqueue("work", idempotency_key=f"k{lives}")
        (key,) = one.keys(task.id)
        assert key.expires_at is not None
        assert key.created_at is not None
        assert key.expires_at - key.created_at == (lives or timedelta(minutes=1))


@pytest.mark.proves("IDM-10")
def test_an_expired_key_runs_again_without_a_collision(app: Outlast, clock: ManualClock) -> None:
    first = app.enqueue("work", 1, idempotency_key="k")
    app.claim("w")[0].complete("old")
    clock.advance("1d")
    second = app.enqueue("work", 2, idempotency_key="k")
    assert second.id != first.id
    assert app.claim("w")[0].complete("new")
    assert (app.get(first.id).result, app.get(second.id).result) == ("old", "new")


@pytest.mark.proves("IDM-15")
def test_opening_purges_expired_keys_but_none_of_a_living_task(
    app: Outlast, clock: ManualClock
) -> None:
    done = app.enqueue("work", idempotency_key="done")
    app.claim("w")[0].complete()
    alive = app.enqueue("work", idempotency_key="alive")
    clock.advance("2d")
    app.close()
    app.open()
    assert app.keys(done.id) == []
    assert [key.key for key in app.keys(alive.id)] == ["alive"]
    assert app.enqueue("work", idempotency_key="alive").id == alive.id


def test_keys_are_asked_for_in_exactly_one_way(app: Outlast) -> None:
    task = app.enqueue("work", group="g", idempotency_key="k")
    for found in (app.keys(task.id), app.keys(group="g"), app.keys(status="pending")):
        assert [key.key for key in found] == ["k"]
    with pytest.raises(InvalidInput, match="exactly one"):
        app.keys()
    with pytest.raises(InvalidInput, match="exactly one"):
        app.keys(task.id, status="pending")
    with pytest.raises(InvalidInput, match="limit"):
        app.keys(task.id, limit=-1)
