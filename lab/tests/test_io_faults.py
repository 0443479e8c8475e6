"""Calls to the operating system fail in every life; each has its share of the 2,000 cases."""

from pathlib import Path

import pytest

from outlast_lab import io_faults
from outlast_lab.experiment import Plan
from outlast_lab.io_faults import small_disks
from outlast_lab.lives import LIVES

SHARES = 2
CASES_OF_EACH_SHARE = 92


def test_the_shares_are_at_least_two_thousand_cases() -> None:
    """Each share asserts its number of cases that were really struck, and no two have one."""
    assert len(LIVES) * SHARES * CASES_OF_EACH_SHARE >= 2_000


@pytest.mark.timeout(600)
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("life", LIVES)
def test_a_failing_call_is_told_and_nothing_acknowledged_is_lost(
    tmp_path: Path, life: str, share: int
) -> None:
    """Done, refused or unknown, and true; no hanging, no repair, and service when it is over."""
    findings = io_faults.fail_calls(Plan(tmp_path, cases=CASES_OF_EACH_SHARE), life, share, SHARES)
    assert findings.violations == []
    assert findings.cases == CASES_OF_EACH_SHARE, findings.figures
    assert findings.figures["calls that were refused"]
    assert findings.figures["calls that ended as unknown"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", small_disks.CASES)
def test_a_full_disk_refuses_in_good_order_and_serves_again_when_there_is_room(
    tmp_path: Path, case: str
) -> None:
    """A real file system of some hundred KiB, or a real limit on the size of files."""
    told = small_disks.play(case, tmp_path)
    assert told.violations == []
    assert told.was_full or told.notes, "it was filled, or it is said why not"


def test_small_disks_refuse_after_they_have_acknowledged_some(tmp_path: Path) -> None:
    told = small_disks.play("largest file of 800 KiB", tmp_path)
    assert told.was_full
    assert told.acknowledged > 5
