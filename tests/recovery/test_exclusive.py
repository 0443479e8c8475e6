"""Exclusive mode: sole access is proven first, and then nothing that runs can be anybody's."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import Lease, Outlast, SecondSqliteCopy, StoreBusy, StoreReplaced
from outlast.store.ops.recovery.orphans import judged_peers
from tests.recovery.stage import by_hand, crash, holder, rows
from tests.support.children import Child

Make = Callable[..., Outlast]


@pytest.mark.proves("REC-12")
def test_it_refuses_to_start_while_another_process_serves_and_names_it(
    make_app: Make, database: Path
) -> None:
    app = make_app(exclusive=True)
    app.enqueue("work", id="t")
    app.close()
    with holder(database) as child:
        assert child.hear() == ["t"]
        with pytest.raises(StoreBusy, match=rf"exclusively and is in use by process {child.pid};"):
            app.open()
        assert rows(database, "SELECT status FROM tasks") == [("running",)], "its task stays"
        child.kill()
    app.open()
    assert app.get("t").status == "pending"


@pytest.mark.proves("REC-12")
def test_it_puts_back_at_once_what_an_ordinary_start_would_leave_to_its_holder(
    make_app: Make, database: Path
) -> None:
    """The row of another host, whose lock cannot be asked and whose beat is fresh."""
    app = make_app()
    app.enqueue("work", id="t")
    app.close()
    crash(database)
    by_hand(
        database, "UPDATE workers SET host = 'elsewhere', boot_id = 'other', lock_file = 'gone'"
    )
    app.open()
    assert app.get("t").status == "running", "it may live, for all that is known"
    app.close()
    alone = make_app(exclusive=True).open()
    task = alone.get("t")
    assert (task.status, task.recovery_count) == ("pending", 1)
    report = alone.last_report()
    assert report is not None
    assert [one.because for one in report.dead_workers] == ["this process has the store to itself"]


@pytest.mark.proves("REC-12")
def test_its_own_tasks_stay_its_own(make_app: Make) -> None:
    app = make_app(exclusive=True)
    app.enqueue("work", id="t")
    (lease,) = app.claim("w")
    assert app.recover().tasks_put_back == 0
    assert app.heal().entries_reclaimed == 0
    assert lease.complete()


def _looks(path: str) -> None:
    from outlast import Outlast, Settings, StoreBusy
    from tests.support.childside import say

    app = Outlast(path, settings=Settings(open_timeout_seconds=0.1))
    for call in (app.counts, app.open):
        try:
            call()
            say("served")
        except StoreBusy as error:
            say(str(error))


@pytest.mark.proves("REC-12")
def test_nobody_else_comes_in_while_it_serves(make_app: Make, database: Path) -> None:
    app = make_app(exclusive=True).open()
    with Child(_looks, database) as child:
        for _ in range(2):
            assert f"process {os.getpid()}" in child.hear()
    app.close()
    with Child(_looks, database) as child:
        assert child.hear_all() == ["served", "served"]


def _works(path: str) -> None:
    from outlast import Outlast, Settings
    from tests.support.childside import say

    app = Outlast(path, settings=Settings(exclusive=True, open_timeout_seconds=2))

    @app.task
    def double(number: int) -> int:
        return 2 * number

    with app:
        tasks = [double.enqueue(number) for number in range(5)]
        app.worker(concurrency=2).run(until_empty=True)
        say([app.get(task.id).result for task in tasks])


@pytest.mark.proves("REC-12")
def test_its_own_worker_is_at_home_in_it(database: Path) -> None:
    """A worker has an assistant in a process of its own, which no lock of ours may keep out."""
    with Child(_works, database) as child:
        assert child.hear() == [0, 2, 4, 6, 8]


@pytest.mark.proves("REC-12")
def test_it_is_no_way_in_for_a_process_that_serves_with_others(
    make_app: Make, database: Path
) -> None:
    """All objects of a process share one store: the second would have proven nothing."""
    make_app().enqueue("work", id="t")
    with holder(database) as child:
        assert child.hear() == ["t"]
        with pytest.raises(StoreBusy, match="open in this process already"):
            make_app(exclusive=True).open()
        assert rows(database, "SELECT status FROM tasks") == [("running",)], "its task stays"


@pytest.mark.proves("REC-12")
def test_a_first_claim_in_the_middle_of_a_pass_is_not_taken_for_somebody_elses(
    make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(exclusive=True)
    app.enqueue("work", id="t")
    leases: list[Lease] = []
    look = "outlast.store.ops.recovery.healer.judged_peers"

    def claims_meanwhile(*arguments: Any) -> Any:
        thread = threading.Thread(target=lambda: leases.extend(app.claim("w")))
        monkeypatch.setattr(look, judged_peers)
        thread.start()
        thread.join()
        return judged_peers(*arguments)

    monkeypatch.setattr(look, claims_meanwhile)
    assert app.heal().dead_workers == ()
    assert leases[0].complete()


@pytest.mark.proves("REC-12")
@pytest.mark.parametrize("side_folder_goes_too", [False, True])
def test_what_connects_anew_is_alone_as_before(
    make_app: Make, database: Path, side_folder_goes_too: bool
) -> None:
    app = make_app(exclusive=True, open_timeout_seconds=0.2)
    app.enqueue("work", id="t")
    database.open().close()
    if side_folder_goes_too:
        shutil.rmtree(f"{database}-outlast")
    with pytest.raises((SecondSqliteCopy, StoreReplaced)):
        app.enqueue("work")
    app.enqueue("work", id="later")
    with Child(_looks, database) as child:
        assert all(f"process {os.getpid()}" in said for said in child.hear_all())


@pytest.mark.proves("REC-12")
def test_a_plan_does_not_take_for_granted_what_was_not_proven(
    make_app: Make, database: Path
) -> None:
    app = make_app(exclusive=True)
    app.enqueue("work", id="t")
    app.close()
    with holder(database) as child:
        assert child.hear() == ["t"]
        assert [one.reason for one in app.recovery_plan()] == ["held"]
        assert app.recovery_stats().entries_reclaimed == 0


def _is_told(path: str) -> None:
    from outlast import Outlast, StoreBusy
    from tests.support.childside import say

    try:
        Outlast(path).counts()
    except StoreBusy as error:
        say(str(error))


def test_whoever_else_comes_is_told_at_once_that_waiting_is_of_no_use(
    make_app: Make, database: Path
) -> None:
    """It would otherwise wait for half a minute, and be told to try again later."""
    app = make_app(exclusive=True).open()
    with Child(_is_told, database) as child:
        said = child.hear()
    assert f"is used exclusively by process {os.getpid()}, and nobody else can open it" in said
    app.close()
    assert make_app().counts()["pending"] == 0, "the word goes with the lock"
