"""Nothing is served before recovery is over: not here, not in another object, not elsewhere."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.store.store import Store
from tests.recovery.stage import rows
from tests.support.children import Child

A_WHILE_SECONDS = 0.3
PATIENCE_SECONDS = 60


class Slowed:
    """A recovery that stands still in its first batch until it is told to go on."""

    def __init__(self, app: Outlast) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=app.recover, args=(self.wait,), daemon=True)
        self.thread.start()
        assert self.inside.wait(PATIENCE_SECONDS)

    def wait(self, batch: object) -> None:
        self.inside.set()
        assert self.go_on.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        self.go_on.set()
        self.thread.join(PATIENCE_SECONDS)


@pytest.fixture
def asked() -> Iterator[Callable[[Callable[[], Any]], "Asked"]]:
    made: list[Asked] = []

    def ask(call: Callable[[], Any]) -> Asked:
        made.append(Asked(call))
        return made[-1]

    yield ask
    for one in made:
        one.thread.join(PATIENCE_SECONDS)


class Asked:
    """A call in a thread of its own, and its answer once it has one."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.answers: list[Any] = []
        self.thread = threading.Thread(target=self._ask, daemon=True)
        self.thread.start()

    def _ask(self) -> None:
        self.answers.append(self._call())

    def is_waiting(self) -> bool:
        self.thread.join(A_WHILE_SECONDS)
        return self.answers == []

    def answer(self) -> Any:
        self.thread.join(PATIENCE_SECONDS)
        return self.answers[0]


@pytest.mark.proves("REC-02")
@pytest.mark.parametrize("is_other_object", [False, True])
def test_a_claim_in_the_midst_of_recovery_waits_for_its_end(
    make_app: Callable[..., Outlast],
    crashed: Path,
    asked: Callable[..., Asked],
    is_other_object: bool,
) -> None:
    app = make_app(heal_batch=1)
    other = make_app() if is_other_object else app
    slowed = Slowed(app)
    claim = asked(lambda: other.claim("w", limit=5))
    assert claim.is_waiting()
    slowed.end()
    assert [lease.task_id for lease in claim.answer()] == ["a", "b"]


@pytest.mark.proves("REC-02")
def test_nobody_is_served_before_the_last_step_is_over_either(
    make_app: Callable[..., Outlast],
    crashed: Path,
    asked: Callable[..., Asked],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With all orphans put back nothing is due any more, and yet it may turn out to have failed."""
    inside, go_on = threading.Event(), threading.Event()
    genuine = Store.check

    def slow(store: Store, is_quick: bool) -> Any:
        inside.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return genuine(store, is_quick)

    monkeypatch.setattr(Store, "check", slow)
    opening = asked(make_app().open)
    assert inside.wait(PATIENCE_SECONDS)
    claim = asked(lambda: make_app().claim("w", limit=5))
    assert claim.is_waiting()
    go_on.set()
    assert len(claim.answer()) == 2
    opening.answer()


def _claims(path: str) -> None:
    from outlast import Outlast
    from outlast.testing import ManualClock
    from tests.support.childside import say

    say("asking")
    with Outlast(path, clock=ManualClock()) as app:
        say(len(app.claim("other", limit=5)))


@pytest.mark.proves("REC-02", "REC-09")
def test_a_claim_of_another_process_waits_for_it_too(
    make_app: Callable[..., Outlast], crashed: Path, asked: Callable[..., Asked]
) -> None:
    slowed = Slowed(make_app(heal_batch=1))
    with Child(_claims, crashed) as child:
        assert child.hear() == "asking"
        claim = asked(child.hear)
        assert claim.is_waiting()
        slowed.end()
        assert claim.answer() == 2
    ended = "SELECT pos FROM events WHERE kind = 'recovery.completed' AND run_id = ?"
    (slow_run,) = rows(crashed, "SELECT DISTINCT run_id FROM transitions WHERE run_id IS NOT NULL")
    ((end,),) = rows(crashed, ended, *slow_run)
    claims = rows(crashed, "SELECT pos FROM transitions WHERE worker_id = 'other'")
    assert min(pos for (pos,) in claims) > end


def _is_impatient(path: str) -> None:
    from outlast import Outlast, Settings, StoreBusy
    from tests.support.childside import say

    try:
        Outlast(path, settings=Settings(open_timeout_seconds=0.05)).enqueue("work")
    except StoreBusy as error:
        say(str(error))


@pytest.mark.proves("REC-02")
def test_who_waits_too_long_for_another_s_recovery_is_told_whose_it_is(
    make_app: Callable[..., Outlast], crashed: Path
) -> None:
    slowed = Slowed(make_app(heal_batch=1))
    with Child(_is_impatient, crashed) as child:
        assert f"is being recovered by process {os.getpid()}; it did not finish" in child.hear()
    slowed.end()
    assert rows(crashed, "SELECT count(*) FROM tasks") == [(2,)]
