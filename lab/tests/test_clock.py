"""`lab clock` in small: holders and rivals whose clocks really disagree."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import outlast
from outlast.errors import InvalidInput
from outlast_lab.experiment import Findings, Plan
from outlast_lab.experiments.clock import running
from outlast_lab.experiments.clock.cases import CASES, OWN, SCRIPTS, STEADY, Case
from outlast_lab.experiments.clock.wall_clock import WallClock
from outlast_lab.experiments.clock.worlds import HOUR_SECONDS, Missing, World
from outlast_lab.stage.handlers import await_sign
from tests.support.foreign import foreign_rows

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
    """Here without the command that makes namespaces."""
    monkeypatch.setattr("shutil.which", lambda command: None)
    ahead, plain = "a time namespace ahead", "the host's clocks"
    with pytest.raises(Missing, match="unshare"):
        STEADY[ahead]().company(tmp_path)
    cases = [Case("holder dies", ahead, plain), Case("holder dies", plain, plain)]
    findings = _play(tmp_path, cases)
    assert findings.cases == 1
    assert findings.violations == []
    assert any("unshare" in note for note in findings.notes)


@pytest.mark.parametrize(
    "world", [World(wall_seconds=HOUR_SECONDS), World(stands_at=1)], ids=["runs", "stands"]
)
def test_a_wall_clock_that_its_processes_do_not_follow_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    monkeypatch.setattr(WallClock, "environment", {})
    with pytest.raises(Missing, match="the wall clock of its processes was not shifted"):
        world.company(tmp_path)


LOOKS = """
import sys, time
from outlast.clock import SystemClock
for line in sys.stdin:
    real = time.CLOCK_REALTIME
    shown = [time.time(), time.time_ns() / 1e9, time.clock_gettime(real)]
    shown += [time.clock_gettime_ns(real) / 1e9, SystemClock().now().utc_ms / 1000]
    print(min(shown), max(shown), time.monotonic(), flush=True)
"""


def _shown_by(process: "subprocess.Popen[str]") -> tuple[float, float, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    least, most, monotonic = map(float, process.stdout.readline().split())
    return least, most, monotonic


def test_a_process_follows_its_wall_clock_through_every_step(tmp_path: Path) -> None:
    """Whichever function it reads it by; the monotonic clock stays the host's."""
    clock = WallClock(tmp_path, ahead_seconds=HOUR_SECONDS)
    with subprocess.Popen(
        [sys.executable, "-c", LOOKS], env=os.environ | clock.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        for ahead_seconds in (HOUR_SECONDS, -HOUR_SECONDS, 1e9, 0.0):
            clock.step(ahead_seconds)
            before = time.time(), time.monotonic()
            least, most, monotonic = _shown_by(process)
            after = time.time(), time.monotonic()
            # A millisecond is what `SystemClock` shows.
            assert before[0] + ahead_seconds - 0.001 <= least <= most <= after[0] + ahead_seconds
            assert before[1] <= monotonic <= after[1]


def test_a_wall_clock_can_stand_still(tmp_path: Path) -> None:
    clock = WallClock(tmp_path, stands_at=1_772_366_400)
    with subprocess.Popen(
        [sys.executable, "-c", LOOKS], env=os.environ | clock.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        for _ in range(2):
            assert _shown_by(process)[:2] == (1_772_366_400, 1_772_366_400)


def test_the_second_process_of_a_worker_follows_its_wall_clock(tmp_path: Path) -> None:
    """It is the one that writes how long a lease stands, and starts without start-up files."""
    store, signs = tmp_path / "work.db", tmp_path / "signs"
    signs.mkdir()
    with World(wall_seconds=HOUR_SECONDS).company(tmp_path) as company:
        producer, worker = company.actor(), company.actor()
        producer.ask("opens", str(store), "producer", str(tmp_path / "producer.jsonl"), {}, None)
        producer.ask("does", "enqueue", "t", {"signs": str(signs)}, "hold")
        began = time.time()
        worker.tell("works", str(store), "worker", {"lease_seconds": 60}, {"concurrency": 1})
        await_sign(signs, "begun t 1", 60, worker.has_answered)
        ((ends_at,),) = foreign_rows(store, "SELECT lease_expires_at / 1000.0 FROM tasks")
    assert began + 60 <= ends_at - HOUR_SECONDS <= time.time() + 60


READS_THE_CLOCK = re.compile(
    r"'now'|current_(time|date)|unixepoch\(\s*('subsec')?\s*\)|(date|time|julianday)\(\s*\)",
    re.IGNORECASE,
)


def test_no_statement_reads_the_clock_but_the_one_for_writers_by_hand() -> None:
    """SQLite's own clock is the host's and cannot be shifted; what Outlast writes goes by ours."""
    lines = [
        line
        for path in Path(outlast.__file__).parent.rglob("*.sql")
        for line in path.read_text(encoding="utf-8").splitlines()
        if READS_THE_CLOCK.search(line)
    ]
    assert [line.split() for line in lines] == [
        "UPDATE tasks SET touched_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)".split()
    ]


NO_CORRECTION = """
from outlast.host import boot, processes
boot.monotonic_offset_ms = lambda: 0
"""
NO_START_TIMES = """
from outlast.host import boot, processes
boot.boottime_offset_ticks = lambda: 0
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
from outlast.host import boot, processes
from outlast.domain.orphans import Judgement, Liveness
from outlast.store.ops.recovery import orphans
_real = orphans.judge
ALIVE = Judgement(Liveness.ALIVE, "its pid is there")
def judge(*given):
    return [
        found._replace(judgement=ALIVE) if processes.process_stat(found.peer.pid) else found
        for found in _real(*given)
    ]
orphans.judge = judge
"""
SILENCE_SAYS_NOTHING = """
from outlast.store import presence
_real = presence.judge_worker
presence.judge_worker = lambda sign, silent_ms, patience: _real(sign, 0, patience)
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
