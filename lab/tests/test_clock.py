"""`lab clock` in small: holders and rivals whose clocks really disagree."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast.errors import InvalidInput
from outlast_lab.experiment import Findings, Plan
from outlast_lab.experiments.clock import running
from outlast_lab.experiments.clock.cases import CASES, OWN, SCRIPTS, STEADY, Case
from outlast_lab.experiments.clock.worlds import FAKETIME_VARIABLE, Missing, World, faketime_library

SHARES = 4


def _play(tmp_path: Path, cases: list[Case], planted: str = "") -> Findings:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "CASES", tuple(cases))
        return running.run(Plan(tmp_path), planted)


@pytest.mark.parametrize("name", [*STEADY, *OWN])
def test_this_machine_can_make_every_world(tmp_path: Path, name: str) -> None:
    """A world that is missing would make the experiment blind; here it is an error."""
    (STEADY | OWN)[name]().company(tmp_path).close()


@pytest.mark.proves("API-11")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(SHARES))
def test_wrong_clocks_neither_take_a_live_lease_nor_miss_an_orphan(
    tmp_path: Path, share: int
) -> None:
    """Set, namespaced, standing still, slept through: every script in every pair of worlds."""
    cases = list(CASES[share::SHARES])
    findings = _play(tmp_path, cases)
    assert findings.violations == []
    assert findings.notes == []
    assert findings.cases == len(cases)


def test_a_case_is_repeated_by_its_text_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    texts = [str(case) for case in CASES]
    assert len(texts) == len(set(texts))
    text = "plus 1h against the host's clocks/holder lives"
    findings = running.run(Plan(tmp_path, case=text))
    assert (findings.cases, findings.violations) == (1, [])
    assert findings.figures["worlds"] == 2
    with pytest.raises(InvalidInput, match=r"no case of this experiment .* one reads"):
        running.run(Plan(tmp_path, case="something else"))


@pytest.mark.timeout(300)
def test_each_script_is_played_once_whatever_the_time(tmp_path: Path) -> None:
    findings = running.run(Plan(tmp_path, seconds=0.0))
    assert findings.violations == []
    assert findings.cases == len(SCRIPTS)


def test_an_interrupt_keeps_no_evidence_and_leaves_nothing(tmp_path: Path) -> None:
    """As from the keyboard: every process of the terminal's group hears it."""
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    command = [sys.executable, "-m", "outlast", "lab", "clock", "--folder", str(work)]
    process = subprocess.Popen(
        [*command, "--keep", str(kept)], stdout=subprocess.PIPE, start_new_session=True
    )
    with process:
        until = time.monotonic() + 30
        while not list(work.glob("*/clock/case-5/work.db")) and time.monotonic() < until:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=30)
    assert process.returncode != 0
    assert b"VIOLATION" not in said
    assert not kept.exists()
    assert list(work.iterdir()) == []


def test_a_means_that_is_missing_is_told_and_the_rest_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAKETIME_VARIABLE, "/nowhere/libfaketime.so.1")
    with pytest.raises(Missing, match="not shifted"):
        World(wall_seconds=3600).company(tmp_path)
    plain = "the host's clocks"
    cases = [Case("holder dies", "plus 1h", plain), Case("holder dies", plain, plain)]
    findings = _play(tmp_path, cases)
    assert findings.cases == 1
    assert findings.violations == []
    assert any("wall clock" in note for note in findings.notes)


def test_the_library_is_taken_from_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = faketime_library()
    assert Path(found).exists()
    monkeypatch.setenv(FAKETIME_VARIABLE, "/somewhere/else.so")
    assert faketime_library() == "/somewhere/else.so"


NO_CORRECTION = """
from outlast import _host
_host.monotonic_offset_ms = lambda: 0
"""
NO_START_TIMES = """
from outlast import _host
_host._boottime_offset_ticks = lambda: 0
"""
WALL_CLOCK = """
import time
from outlast.clock import Instant, SystemClock
def now(self):
    return Instant(time.time_ns() // 1_000_000, time.time_ns() // 1_000_000)
SystemClock.now = now
"""
BOOT_TIME = """
import time
from outlast.clock import Instant, SystemClock
def now(self):
    boot_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return Instant(time.time_ns() // 1_000_000, boot_ms)
SystemClock.now = now
"""
KNOWN_BY_NAME_AND_PID = """
from outlast import _host
from outlast.domain.orphans import Judgement, Liveness
from outlast.store.sqlite import orphans
_real = orphans.judge
def judge(peer, *rest):
    found = _real(peer, *rest)
    if _host.process_stat(peer.pid) is not None:
        return found._replace(judgement=Judgement(Liveness.ALIVE, "its pid is there"))
    return found
orphans.judge = judge
"""
SILENCE_SAYS_NOTHING = """
from outlast.store.sqlite import liveness
_real = liveness.judge_worker
liveness.judge_worker = lambda sign, silent_ms, patience: _real(sign, 0, patience)
"""


@pytest.mark.parametrize(
    ("case", "planted"),
    [
        ("the host's clocks against a time namespace ahead/holder lives", NO_CORRECTION),
        ("the host's clocks against a time namespace behind/lease runs out", NO_CORRECTION),
        ("the host's clocks against a time namespace ahead/lock file is gone", NO_START_TIMES),
        ("a time namespace that slept against the host's clocks/lock file is gone", NO_START_TIMES),
        ("the host's clocks against plus 1h/holder lives", WALL_CLOCK),
        ("a clock that is set against a clock that is set/suspend", WALL_CLOCK),
        ("the host's clocks against a time namespace that slept/holder lives", BOOT_TIME),
        (
            "a clock that stands still, and the same pid against the host's clocks"
            "/restart in the same millisecond",
            KNOWN_BY_NAME_AND_PID,
        ),
        ("a container against another container/silence without a lock file", SILENCE_SAYS_NOTHING),
    ],
)
def test_a_planted_defect_is_found(tmp_path: Path, case: str, planted: str) -> None:
    assert running.run(Plan(tmp_path, case=case)).violations == [], "the case itself is fine"
    findings = running.run(Plan(tmp_path, case=case), planted)
    assert findings.cases == 1
    assert findings.violations
    assert findings.violations[0].case == case
