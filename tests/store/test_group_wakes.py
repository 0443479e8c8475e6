"""Those of a large group are woken by and by, and none of them is left asleep."""

from collections.abc import Callable

import pytest

from outlast.store.sqlite import group
from tests.store.test_group_commit import PATIENCE_SECONDS, Crowd, await_more, crowd

__all__ = ["crowd"]

MANY = 5 * group.WOKEN_AT_ONCE
NAMES = [f"early {n}" for n in range(MANY)]


@pytest.fixture(autouse=True)
def nobody_looks_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a sleeper who was forgotten would find its answer by itself, a little later."""
    monkeypatch.setattr(group, "LOOK_UP_SECONDS", 10 * PATIENCE_SECONDS)


def decided_while_others_wait(crowd: Crowd, *late: str) -> None:
    crowd.call("first")
    crowd.disk.await_group()
    crowd.call(*NAMES)
    crowd.disk.let_through()
    crowd.disk.await_group()
    crowd.call(*late)
    crowd.disk.let_through()
    crowd.disk.await_group()


def answered(crowd: Crowd, names: list[str]) -> Callable[[], int]:
    return lambda: len(crowd.answers.keys() & set(names))


def test_nobody_sleeps_longer_than_until_the_next_group_is_stored(crowd: Crowd) -> None:
    """The group after that one hangs, and those who were woken first do not come back."""
    decided_while_others_wait(crowd, *(f"late {n}" for n in range(MANY)))
    crowd.call("last")
    crowd.disk.let_through()
    crowd.disk.await_group()
    await_more(answered(crowd, NAMES), MANY - 1)
    assert crowd.disk.groups[-1] == ["last"]


def test_one_who_comes_alone_and_is_the_last_wakes_all_who_are_left(crowd: Crowd) -> None:
    decided_while_others_wait(crowd, "late")
    crowd.disk.let_through()
    await_more(answered(crowd, NAMES), MANY - 1)


def test_who_is_about_to_sleep_wakes_another(crowd: Crowd) -> None:
    """So a crowd that comes again and again wakes itself, one by one."""
    decided_while_others_wait(crowd, "late")
    # One of them led.
    awake = 1 + group.WOKEN_AT_ONCE
    await_more(answered(crowd, NAMES), awake - 1)
    for n in range(awake, MANY):
        crowd.call(f"again {n}")
        await_more(answered(crowd, NAMES), n)
    assert "late" not in crowd.answers, "its end would have woken them all"


def test_one_that_is_to_stand_alone_waits_on_without_being_taken_for_a_call_from_inside(
    crowd: Crowd,
) -> None:
    """A leader that is struck leaves such a member to its own caller, which waits already."""
    crowd.call("first")
    crowd.disk.await_group()
    asked = crowd.group.submit(crowd.operation("struck"))
    crowd.ask("struck", asked)
    await_more(lambda: len(crowd.group._shared), 0)
    turn = asked.turn
    assert turn is not None
    asked.turn = None
    turn.wake()
    await_more(lambda: int(asked.turn is not None), 0)
    crowd.join()
    assert crowd.answers["struck"] == "struck"
