"""What is known of the process of an attempt goes into the log with the attempt's end."""

import pytest

from outlast.store.records import Claimed, Settlement
from tests.conformance.driver import BROKEN, COMPLETED, FATAL, RELEASED, Driver

MIB = 1 << 20


def ended(driver: Driver, *settlements: Settlement) -> None:
    driver.store.leases.settle(settlements, driver.clock.now())


def exits(driver: Driver, task_id: str) -> list[tuple[str, int | None, int | None]]:
    moves = driver.store.tasks.history(task_id) or []
    return [(move.reason, move.exit_signal, move.peak_memory_bytes) for move in moves]


@pytest.mark.parametrize("cause", [COMPLETED, BROKEN, FATAL, RELEASED])
def test_signal_and_peak_memory_stand_in_the_move_that_ended_the_attempt(
    driver: Driver, cause: object
) -> None:
    driver.add("t1")
    claimed = driver.claim_one()
    settlement = Settlement(claimed.grant, "t1", cause, None, 9, 300 * MIB)  # type: ignore[arg-type]
    ended(driver, settlement)
    claim, end = exits(driver, "t1")
    assert claim == ("claimed", None, None)
    assert end[1:] == (9, 300 * MIB)


def test_each_attempt_of_a_batch_keeps_its_own_exit(driver: Driver) -> None:
    """They move as sets, and the sets must not blur what differs."""
    driver.add(*(f"t{n}" for n in range(6)))
    leases = driver.claim(limit=6)
    known = [(None, None), (9, None), (None, 5 * MIB), (9, 5 * MIB), (9, None), (None, None)]

    def settlement(claimed: Claimed, signal: int | None, peak: int | None) -> Settlement:
        return Settlement(claimed.grant, claimed.task_id, COMPLETED, '"r"', signal, peak)

    ended(driver, *(settlement(one, *how) for one, how in zip(leases, known, strict=True)))
    assert [exits(driver, one.task_id)[-1][1:] for one in leases] == known
    assert {driver.get(one.task_id).result for one in leases} == {"r"}


def test_a_later_attempt_says_nothing_of_the_earlier_ones_process(driver: Driver) -> None:
    driver.add("t1")
    first = driver.claim_one()
    ended(driver, Settlement(first.grant, "t1", BROKEN, None, 11, MIB))
    driver.settle(driver.claim_one(), COMPLETED)
    assert exits(driver, "t1") == [
        ("claimed", None, None),
        ("retry", 11, MIB),
        ("claimed", None, None),
        ("completed", None, None),
    ]
