"""The experiment can fail: it finds what a failing disk does to a queue that handles it badly."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from lab.tests.planted import planted
from outlast_lab.experiment import Plan
from outlast_lab.experiments import io_faults
from outlast_lab.experiments.io_faults import serving, small_disks, stage
from outlast_lab.judge.foreign_reader import foreign_stored
from outlast_lab.stage import fork_server

CONCLUDE = "Batch.conclude"
DOUBT = "                member.doubt(error)\n"


def found(told: dict[str, Any]) -> str:
    return "; ".join(one["what"] for one in told["experiments"][0]["violations"])


@pytest.mark.timeout(300)
def test_a_failed_commit_that_is_acknowledged_is_found(tmp_path: Path) -> None:
    told = planted(
        tmp_path,
        CONCLUDE,
        (DOUBT, "                continue\n"),
        "io",
        "enqueue: write wal 20 full once",
    )
    assert "lost" in found(told)


@pytest.mark.timeout(300)
def test_a_failed_commit_that_is_told_as_a_refusal_is_found(tmp_path: Path) -> None:
    """All of it is in the log, and whoever opens the store after a crash finds it done."""
    told = planted(
        tmp_path,
        CONCLUDE,
        (DOUBT, "                member.fail(StoreError(str(error)))\n"),
        "io",
        "enqueue: sync wal 4 late deadly",
    )
    assert "phantom" in found(told)


@pytest.mark.timeout(300)
def test_a_resolve_that_only_reads_is_found(tmp_path: Path) -> None:
    """What it did not see turns up after a crash."""
    told = planted(
        tmp_path,
        "Tasks.resolve",
        ('        self._access.write("resolve", lambda tx: tx.run("bump_fence"))\n', ""),
        "io",
        "enqueue: sync wal 4 late deadly",
    )
    assert re.search(r"resolve\(e-\d\) said None, and it is pending", found(told))


@pytest.mark.timeout(300)
def test_an_error_of_the_operating_system_that_gets_out_is_found(tmp_path: Path) -> None:
    told = planted(
        tmp_path,
        "OwnPresence._born",
        ("        except OSError as error:", "        except EOFError as error:"),
        "io",
        "claim: side-allocate lockfile 1 full once",
    )
    assert "surprise" in found(told)


@pytest.mark.timeout(300)
def test_a_case_repeats_exactly(tmp_path: Path) -> None:
    plan = Plan(tmp_path, case="settle: write wal 60 torn-full lasting")
    first, second = io_faults.run(plan), io_faults.run(plan)
    assert first.violations == second.violations == []
    assert first.cases == second.cases == 1
    assert first.figures == second.figures


def test_a_case_that_is_not_met_is_no_case_and_no_success(tmp_path: Path) -> None:
    findings = io_faults.run(Plan(tmp_path, case="enqueue: write wal 9999 full once"))
    assert findings.cases == 0
    assert "the case was not met" in findings.violations[0].what


def test_a_life_without_a_fault_is_a_case_that_can_be_repeated(tmp_path: Path) -> None:
    findings = io_faults.run(Plan(tmp_path, case="enqueue without a fault"))
    assert (findings.cases, findings.violations) == (1, [])


@pytest.mark.timeout(300)
def test_even_in_no_time_calls_of_every_kind_fail_and_a_disk_is_filled(tmp_path: Path) -> None:
    findings = io_faults.run(Plan(tmp_path, seconds=0))
    assert findings.violations == []
    assert findings.cases > 30
    assert any("acknowledged on a full disk" in figure for figure in findings.figures)


def test_evidence_is_as_the_case_left_it_before_anybody_opened_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(database: Path) -> list[str]:
        database.write_bytes(b"")
        return ["it is planted"]

    monkeypatch.setattr(serving, "_reopened", spoil)
    playing = serving.Stage(tmp_path)
    playing.prepare("enqueue")
    told = playing.play("enqueue: write wal 20 full deadly")
    assert told["violations"] == ["it is planted"]
    kept = Path(told["evidence"])
    assert foreign_stored(kept / "store" / serving.DATABASE).tasks
    assert (kept / "history.jsonl").stat().st_size
    assert (kept / "before.jsonl").exists()


def test_a_small_disk_that_broke_something_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_disks, "judge", lambda left: ["it is planted"])
    plan = Plan(tmp_path, case="largest file of 800 KiB", keep=tmp_path / "kept")
    (finding,) = io_faults.run(plan).violations
    assert finding.evidence is not None
    assert (finding.evidence / "store" / "work.db").exists()
    assert (finding.evidence / "history.jsonl").exists()


def test_a_stage_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "GOODBYE_SECONDS", 0.2)
    with stage.stages(tmp_path, 1) as stages:
        (server,) = stages._servers
        os.kill(server.pid, signal.SIGSTOP)
    assert server._process.returncode == -signal.SIGKILL
