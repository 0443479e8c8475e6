"""The experiment can fail: it finds what a failing disk does to a queue that handles it badly."""

from pathlib import Path
from typing import Any

import pytest

from outlast.lab import io_faults
from outlast.lab.experiment import Plan
from tests.lab.planted import planted

WRITER = "store/sqlite/writer.py"
DOUBT = """            for member in members:
                member.doubt(error)
            if not isinstance(error, apsw.Error):
                raise
"""


def found(told: dict[str, Any]) -> str:
    return "; ".join(one["what"] for one in told["experiments"][0]["violations"])


@pytest.mark.timeout(300)
def test_a_failed_commit_that_is_acknowledged_is_found(tmp_path: Path) -> None:
    told = planted(
        tmp_path, WRITER, (DOUBT, "            return\n"), "io", "enqueue: write wal 20 full once"
    )
    assert "lost" in found(told)


@pytest.mark.timeout(300)
def test_a_failed_commit_that_is_told_as_a_refusal_is_found(tmp_path: Path) -> None:
    """All of it is in the log, and whoever opens the store after a crash finds it done."""
    told = planted(
        tmp_path,
        WRITER,
        (DOUBT, "            self._fail(members, error)\n"),
        "io",
        "enqueue: sync wal 3 late deadly",
    )
    assert "phantom" in found(told)


@pytest.mark.timeout(300)
def test_a_resolve_that_only_reads_is_found(tmp_path: Path) -> None:
    """What it did not see turns up after a crash."""
    told = planted(
        tmp_path,
        "store/sqlite/store.py",
        ('        self._write("resolve", lambda tx: tx.run("bump_fence"))\n', ""),
        "io",
        "enqueue: sync wal 3 late deadly",
    )
    assert "resolve(e-2) said None, and it is pending" in found(told)


@pytest.mark.timeout(300)
def test_an_error_of_the_operating_system_that_gets_out_is_found(tmp_path: Path) -> None:
    told = planted(
        tmp_path,
        "store/sqlite/holding.py",
        ("                except OSError as error:", "                except EOFError as error:"),
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
