"""Those of a large group are woken by and by, and none of them is left asleep."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from outlast.store.sqlite.answers import WOKEN_AT_ONCE
from outlast.store.sqlite.pending import Pending

from outlast import StoreError
from outlast.store.sqlite import group
from tests.store.test_group_commit import PATIENCE_SECONDS, Crowd, await_more, crowd

__all__ = ["crowd"]

MANY = 10 * WOKEN_AT_ONCE
NAMES = [f"early {n}" for n in range(MANY)]


@pytest.fixture(autouse=True)
def nobody_looks_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a sleeper who was forgotten would find its answer by itself, a little later."""
    monkeypatch.setattr(group, "LOOK_UP_SECONDS", 10 * PATIENCE_SECONDS)


def answered(crowd: Crowd, names: list[str]) -> Callable[[], int]:
    return lambda: len(crowd.answers.keys() & set(names))


@pytest.mark.parametrize("late", [[], ["late"]], ids=["nobody comes", "the next group hangs"])
def test_a_whole_crowd_is_answered_without_the_next_group(crowd: Crowd, late: list[str]) -> None:
    """Each of them asks once and goes away, as the threads of a server do."""
    crowd.call("first")
    crowd.disk.await_group()
    crowd.call(*NAMES)
    crowd.disk.let_through()
    crowd.disk.await_group()
    crowd.call(*late)
    crowd.disk.let_through()
    await_more(answered(crowd, NAMES), MANY - 1)
    assert "late" not in crowd.answers


def test_one_that_is_to_stand_alone_waits_on_without_being_taken_for_a_call_from_inside(
    crowd: Crowd,
) -> None:
    """A leader that is struck leaves such a member to its own caller, which waits already."""
    crowd.call("first")
    crowd.disk.await_group()
    asked = crowd.group.submit(crowd.operation("struck"))
    crowd.ask("struck", asked)
    await_more(lambda: len(crowd.group.shared), 0)
    turn = asked.turn
    assert turn is not None
    asked.turn = None
    turn.wake()
    await_more(lambda: int(asked.turn is not None), 0)
    crowd.join()
    assert crowd.answers["struck"] == "struck"


def test_what_an_interrupted_call_left_behind_refuses_nobody(crowd: Crowd) -> None:
    crowd.call("first")
    crowd.disk.await_group()
    left_behind = crowd.group.submit(crowd.operation("interrupted"))

    def again() -> None:
        crowd.group._seat.pending = left_behind
        crowd.answers["again"] = crowd.group.submit(crowd.operation("again")).result()

    thread = threading.Thread(target=again, daemon=True)
    thread.start()
    await_more(lambda: len(crowd.group.shared), 0)
    crowd.join()
    thread.join(PATIENCE_SECONDS)
    assert crowd.answers["again"] == "again"


def test_a_call_inside_of_one_that_joins_the_queue_is_refused_and_never_waits(
    crowd: Crowd,
) -> None:
    """It would wait with the queue locked, for a leader who cannot step down without it."""
    met: list[str] = []

    class Struck(deque[Pending[Any]]):
        def append(self, pending: Pending[Any]) -> None:
            super().append(pending)
            if pending.operation.context == "outer":
                try:
                    crowd.group.submit(crowd.operation("inner")).result()
                except StoreError as error:
                    met.append(str(error))

    crowd.call("first")
    crowd.disk.await_group()
    crowd.group.shared = Struck()
    crowd.call("outer")
    crowd.join()
    assert len(met) == 1
    assert "from inside one of its own operations" in met[0]
    assert crowd.answers["outer"] == "outer"
