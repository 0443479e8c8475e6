"""Which faults there are, what they are called, and which are tried first."""

from collections import Counter

import pytest

from outlast import InvalidInput
from outlast.lab.io_faults.choosing import in_order
from outlast.lab.io_faults.faults import FITTING, Case, Fault, case_of, faults_at
from outlast.lab.io_faults.switch import Counted, Switch


@pytest.mark.parametrize("kind", FITTING)
def test_a_case_is_repeated_by_its_text(kind: str) -> None:
    for fault in faults_at(f"{kind} wal", 17):
        case = Case("in groups", fault)
        assert case_of(str(case)) == case


def test_a_text_that_is_no_case_is_refused_with_an_example() -> None:
    with pytest.raises(InvalidInput, match="one reads like"):
        case_of("enqueue: everything at once")


def struck(fault: Fault, *calls: str) -> list[str | None]:
    switch = Switch()
    switch.turn_on(fault, lambda: "enqueue")
    return [switch.meet(call) for call in calls]


def test_a_fault_strikes_the_nth_call_of_its_kind_on_its_file_alone() -> None:
    calls = ("write wal", "write db", "write wal", "write wal", "write db")
    fault = Fault("write wal", 2, "full")
    assert struck(fault, *calls) == [None, None, "full", None, None]


def test_a_lasting_fault_strikes_its_kind_on_every_file_from_then_on() -> None:
    calls = ("write wal", "write db", "write wal", "read db", "write db", "write shm")
    fault = Fault("write wal", 2, "full", "lasting")
    assert struck(fault, *calls) == [None, None, "full", None, "full", "full"]


def test_nothing_fails_and_nothing_is_counted_once_the_fault_is_lifted() -> None:
    switch = Switch()
    switch.turn_on(Fault("write wal", 1, "full", "lasting"), lambda: "enqueue")
    assert switch.meet("write wal") == "full"
    switch.turn_off()
    assert switch.meet("write wal") is None
    assert switch.struck_in == ["enqueue"]


def test_each_sort_of_fault_is_tried_once_before_any_is_tried_twice() -> None:
    calls = [Counted("write wal", n, "enqueue") for n in range(1, 40)]
    calls += [Counted("sync wal", 1, "claim"), Counted("read db", 1, "claim")]
    cases = in_order({"one": calls, "other": calls[:3]}, seed=5)
    assert len(cases) == len(set(cases))
    sorts = Counter(
        (case.life, case.fault.call, case.fault.how, case.fault.how_long) for case in cases
    )
    first = [
        (case.life, case.fault.call, case.fault.how, case.fault.how_long)
        for case in cases[: len(sorts)]
    ]
    assert sorted(first) == sorted(sorts)


def test_the_same_seed_chooses_the_same_cases() -> None:
    calls = {"one": [Counted("write wal", n, "enqueue") for n in range(1, 40)]}
    assert in_order(calls, 3) == in_order(calls, 3) != in_order(calls, 4)
