"""Chaos in small: whole rounds without a violation, and rounds that repeat."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lab.tests.planted import planted_package
from outlast.errors import InvalidInput
from outlast_lab.experiment import Plan
from outlast_lab.experiments.chaos import running
from outlast_lab.experiments.chaos.cycles import TOGETHER
from outlast_lab.experiments.chaos.programs import (
    FEWEST_PROCESSES,
    MOST_PROCESSES,
    NIGHT_SECONDS,
    round_of,
)
from outlast_lab.experiments.clock.wall_clock import WallClock

ROUND_SECONDS = 8
MOST_ROUNDS = 8
# On a machine with nothing else to do the first round is enough; on one with much, no handler may
# run at all in a round of some seconds, and such a round says nothing.
FINDING_ROUNDS = 5
FINDING_HANDLERS = 60
CRASHES = 15
# Otherwise the rest proves little.
LEAST = {
    "seconds of chaos": 2 * ROUND_SECONDS,
    "kills": 6,
    "stops": 4,
    "tasks": 200,
    "handlers run": 10,
    "done: complete": 100,
    "recovered: crash_retry": 2,
}


@pytest.mark.timeout(600)
def test_rounds_of_chaos_break_no_promise(tmp_path: Path) -> None:
    """Two rounds, or more if the machine has so much else to do that little happens in them."""
    figures: Counter[str] = Counter()
    for number in range(1, MOST_ROUNDS + 1):
        case = f"round {number} of {ROUND_SECONDS} s"
        findings = running.run(Plan(tmp_path, seed=1, case=case, keep=tmp_path / "kept"))
        assert findings.violations == []
        assert findings.cases == 1
        figures.update({name: int(value) for name, value in findings.figures.items()})
        if all(figures[name] >= least for name, least in LEAST.items()):
            break
    else:
        pytest.fail(f"too little happened: {figures}")
    assert list(tmp_path.iterdir()) == [], "nothing is left behind, and nothing had to be kept"


@pytest.mark.timeout(600)
@pytest.mark.proves("HEAL-05")
def test_a_round_that_is_suspended_and_crashes_as_a_whole_breaks_no_promise(tmp_path: Path) -> None:
    """All stand still while their wall clocks jump; then all are killed and start together."""
    case = "round 2 of 4 s"
    findings = running.run(Plan(tmp_path, seed=1, case=case, keep=tmp_path / "kept"))
    assert findings.violations == []
    assert int(findings.figures["suspends"]) >= 1
    assert int(findings.figures["crashes of all"]) == 1
    assert int(findings.figures["recoveries on record"]) > FEWEST_PROCESSES


@pytest.mark.timeout(600)
def test_four_processes_that_start_together_on_a_crashed_store_again_and_again_lose_nothing(
    tmp_path: Path,
) -> None:
    """One recovers at a time, and a task is taken back within its budget; `lab chaos` has more."""
    case = f"cycles 1, {CRASHES} crashes"
    findings = running.run(Plan(tmp_path, seed=1, case=case, keep=tmp_path / "kept"))
    assert findings.violations == []
    assert int(findings.figures["crash cycles"]) == CRASHES
    assert int(findings.figures["kills"]) == CRASHES * TOGETHER
    assert list(tmp_path.iterdir()) == []


def test_by_hand_there_are_fifty_crashes_if_there_is_time_for_them() -> None:
    """Guards the number that is asked for: the suite's own fifteen are not all there are."""
    assert [running._crashes_in(seconds) for seconds in (5, 20, 600)] == [15, 50, 50]


def test_every_round_crashes_as_a_whole_and_every_second_one_is_suspended() -> None:
    for number in range(1, 7):
        whats = [deed.what for deed in round_of(1, number, 8).deeds]
        assert whats.count("crash") == 1
        assert whats.count("suspend") == (0 if number % 2 else 2)


def test_the_wall_clock_of_a_round_jumps_by_a_night_each_time(tmp_path: Path) -> None:
    clock = WallClock(tmp_path)
    for nights in range(3):
        before = time.time()
        shown = subprocess.run(
            [sys.executable, "-c", "import time; print(time.time())"],
            env=os.environ | clock.environment, capture_output=True, check=True,
        )  # fmt: skip
        assert before <= float(shown.stdout) - nights * NIGHT_SECONDS <= time.time()
        clock.jump(NIGHT_SECONDS)


def test_the_seed_decides_who_takes_part_and_what_is_done_to_them() -> None:
    assert round_of(5, 2, 8) == round_of(5, 2, 8)
    assert round_of(5, 2, 8) != round_of(6, 2, 8)
    assert round_of(5, 2, 8) != round_of(5, 3, 8)
    sizes = {len(round_of(seed, 1, 8).programs) for seed in range(200)}
    assert sizes == set(range(FEWEST_PROCESSES, MOST_PROCESSES + 1))


def test_every_round_has_hands_a_worker_coroutines_and_an_operator() -> None:
    for seed in range(50):
        roles = {program.role for program in round_of(seed, 1, 8).programs}
        assert {"crowd", "worker", "coroutines", "keeper"} <= roles
    everybody = {one.role for seed in range(50) for one in round_of(seed, 1, 8).programs}
    assert "commands" in everybody


def test_every_kind_of_deed_is_done_and_some_stops_outlast_a_lease() -> None:
    deeds = [deed for seed in range(20) for deed in round_of(seed, 1, 8).deeds]
    assert {(deed.what, deed.aim) for deed in deeds} >= {
        ("kill", "itself"), ("kill", "family"), ("kill", "one below"),
        ("stop", "itself"), ("stop", "family"), ("stop", "one below"),
    }  # fmt: skip
    assert any(deed.what == "leave" for deed in deeds)
    stops = [deed.seconds for deed in deeds if deed.what == "stop"]
    assert min(stops) < 0.1
    assert max(stops) > 3


def test_a_case_that_is_none_is_refused(tmp_path: Path) -> None:
    for case in (
        "everything",
        "round 1 of 1.2.3 s",
        "round 1 of . s",
        "round one of 8 s",
        "cycles",
    ):
        with pytest.raises(InvalidInput, match="round 1 of 8 s"):
            running.run(Plan(tmp_path, case=case))


def test_time_is_shared_out_in_rounds(tmp_path: Path) -> None:
    assert list(running.rounds(Plan(tmp_path, cases=3))) == [(1, 8.0), (2, 8.0), (3, 8.0)]
    number, seconds = next(iter(running.rounds(Plan(tmp_path, seconds=5))))
    assert number == 1
    assert 4 <= seconds <= 5
    assert [number for number, _ in running.rounds(Plan(tmp_path, seconds=0))] == [1]


def found_in_some_round(
    folder: Path, place: str, change: tuple[str, str], word: str
) -> dict[str, Any]:
    """The first violation that has the word; what the kernel lets happen in a round differs."""
    package = planted_package(folder, place, change)
    number = handlers = 0
    while number < FINDING_ROUNDS or handlers < FINDING_HANDLERS:
        number += 1
        (experiment,) = package.told("chaos", f"round {number} of {4 * number} s")["experiments"]
        handlers += int(experiment["figures"]["handlers run"])
        for violation in experiment["violations"]:
            if word in violation["what"]:
                return dict(violation)
    pytest.fail(f"nothing of the kind was found in {number} rounds of {handlers} handlers: {word}")


@pytest.mark.timeout(600)
def test_chaos_finds_workers_that_are_taken_for_dead(tmp_path: Path) -> None:
    """The lock that says who lives is asked for by another kind of lock, which is always free."""
    change = (
        "fcntl.flock(self.descriptor, fcntl.LOCK_SH",
        "fcntl.lockf(self.descriptor, fcntl.LOCK_SH",
    )
    found = found_in_some_round(tmp_path, "owner_is_dead", change, "overlap")
    kept = Path(found["evidence"])
    assert (kept / "work.db").exists()
    assert (kept / running.AS_LEFT / "work.db").exists()
    assert list((kept / "records").glob("*.jsonl"))


@pytest.mark.timeout(600)
def test_chaos_finds_results_that_are_lost(tmp_path: Path) -> None:
    """A result of the real worker is forgotten when its task's number can be divided by three."""
    change = (
        "self.decide(job, (seq, token, ended.result))",
        "self.decide(job, (seq, token, ended.result if seq % 3 else None))",
    )
    found_in_some_round(tmp_path, "Jobs.end", change, "lost")
