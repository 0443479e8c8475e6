"""Which faults there are, what they are called, and which are tried first."""

from collections import Counter
from pathlib import Path

import pytest

from outlast import InvalidInput
from outlast_lab.experiment import Plan
from outlast_lab.io_faults import run
from outlast_lab.io_faults.choosing import in_order, share_of, some_of_each_kind
from outlast_lab.io_faults.faults import FITTING, Case, Fault, case_of, faults_at
from outlast_lab.io_faults.switch import Counted, Switch


@pytest.mark.parametrize("kind", FITTING)
def test_a_case_is_repeated_by_its_text(kind: str) -> None:
    for fault in faults_at(f"{kind} wal", 17):
        case = Case("in groups", fault)
        assert case_of(str(case)) == case


@pytest.mark.parametrize(
    "text",
    [
        "enqueue: everything at once",
        "enqueue: fly wal 3 error once",
        "enqueue: write wal 3 wings once",
        "enqueue: write wal 3 full forever",
        "enqueue: write wal 0 full once",
        "nolife: write wal 3 full once",
        "nolife without a fault",
    ],
)
def test_a_text_that_is_no_case_is_refused_with_an_example(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match="one reads like"):
        case_of(text)
    with pytest.raises(InvalidInput, match="one reads like"):
        run(Plan(tmp_path, case=text))


CALLS = [
    Counted(f"{kind} {file}", n, "enqueue")
    for kind in FITTING
    for file in ("db", "wal")
    for n in range(1, 9)
]


def test_shares_have_no_case_in_common_and_leave_none_out() -> None:
    cases = in_order({"enqueue": CALLS, "claim": CALLS}, seed=1)
    shares = [set(share_of(cases, number, 3)) for number in range(3)]
    assert sum(map(len, shares)) == len(set().union(*shares)) == len(cases)
    # Whatever else there is to try, a case belongs to the same share.
    fewer = in_order({"claim": CALLS[::3]}, seed=2)
    assert set(share_of(fewer, 1, 3)) <= shares[1]


def test_some_of_each_kind_of_call_come_first_from_several_lives() -> None:
    cases = in_order({"enqueue": CALLS, "claim": CALLS, "settle": CALLS}, seed=1)
    first = some_of_each_kind(cases)
    assert Counter(case.fault.kind for case in first) == dict.fromkeys(FITTING, 2)
    assert {case.life for case in first} == {"enqueue", "claim", "settle"}


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
