"""Power fails at every point of every life; each has its share of the 20,000 images."""

from pathlib import Path

import pytest

from outlast import Settings
from outlast_lab.experiment import Findings, Plan
from outlast_lab.power.hand import LYING
from outlast_lab.power.own_lives import ALL_LIVES, PAST_A_READER
from outlast_lab.power.running import Run

SHARES = {
    "enqueue": 1500,
    "claim": 1600,
    "settle": 2000,
    "heal": 900,
    "keep": 1900,
    "in groups": 1500,
    "finish and flush": 1300,
    "start": 900,
    "mend": 900,
    "approve": 900,
    "locks": 900,
    "subscribe": 900,
    "operate": 900,
    "approve by name": 300,
    PAST_A_READER: 1200,
}
MIGRATIONS = {"migrate": 1600, "migrate on": 1100}


def judged(folder: Path, lives: list[str], cases: int) -> Findings:
    return Run(Plan(folder.resolve(), seed=11, cases=cases), lives, controls=()).all()


def assert_nothing_was_lost(findings: Findings, cases: int) -> None:
    assert findings.violations == []
    assert findings.cases >= cases, "an image counts once, however often it comes up"
    for figure in ("sync boundaries", "operations"):
        hit, total = str(findings.figures[figure]).split(" of ")
        assert hit == total != "0", f"power failed at all {figure}"
    assert int(findings.figures["opened by Outlast"]) >= cases // 60
    assert int(findings.figures["power failed again"]) >= cases // 60


def test_each_life_has_its_share_of_the_images() -> None:
    assert set(SHARES) | set(MIGRATIONS) == set(ALL_LIVES)
    assert sum((*SHARES.values(), *MIGRATIONS.values())) >= 20_000


@pytest.mark.timeout(400)
@pytest.mark.proves("TST-10", "INT-03", "INT-28")
@pytest.mark.parametrize("life", SHARES)
def test_whatever_disk_a_power_cut_leaves_nothing_acknowledged_is_missing(
    tmp_path: Path, life: str
) -> None:
    """On each image stands a state the store was in, none older than the last acknowledgement.

    Lost, cut off, dropped, reordered and torn writes, files whose names were not synced; read by a
    foreign tool, some of them opened by Outlast, which goes on, and power fails again meanwhile.
    """
    assert Settings().synchronous == "full"
    assert_nothing_was_lost(judged(tmp_path, [life], SHARES[life]), SHARES[life])


@pytest.mark.timeout(400)
@pytest.mark.proves("TST-20")
@pytest.mark.parametrize("life", MIGRATIONS)
def test_a_power_cut_during_a_migration_leaves_the_old_version_or_the_new(
    tmp_path: Path, life: str
) -> None:
    """The schema is one that stood after a commit, and the next opening completes it."""
    assert_nothing_was_lost(judged(tmp_path, [life], MIGRATIONS[life]), MIGRATIONS[life])


@pytest.mark.proves("INT-03")
def test_less_than_a_full_sync_loses_what_was_acknowledged(tmp_path: Path) -> None:
    """The controls. NORMAL loses commits and keeps the store whole; OFF and a lying disk do not."""
    found = Run(Plan(tmp_path.resolve(), cases=300), ["finish and flush"]).all()
    assert found.violations == []
    assert found.notes == [], "the recorder was calibrated"
    harm = {}
    for mode in ("normal", "off", LYING):
        words = str(found.figures[f"control {mode}"]).split()
        harm[mode] = (int(words[0]) > 0, int(words[5]) > 0)
    assert harm == {"normal": (True, False), "off": (True, True), LYING: (True, True)}


def test_a_case_is_found_again_by_its_text_and_its_evidence_is_kept(tmp_path: Path) -> None:
    case = f"{LYING}/finish and flush/cut 106/none"
    plan = Plan(tmp_path.resolve() / "work", case=case, keep=tmp_path / "kept")
    plan.folder.mkdir()
    (finding,) = Run(plan, list(ALL_LIVES)).all().violations
    assert finding.case == case
    assert finding.what.startswith("lost: ")
    assert finding.evidence is not None
    names = {file.name for file in finding.evidence.iterdir()}
    assert names == {"power.db", "power.db-wal", "recording.txt"}
    text = (finding.evidence / "recording.txt").read_text()
    assert "105 write power.db" in text.split("----- power fails here -----")[0].splitlines()[-1]


def test_a_case_that_held_holds_again(tmp_path: Path) -> None:
    found = Run(Plan(tmp_path.resolve(), case="settle/cut 60/all"), list(ALL_LIVES)).all()
    assert found.violations == []
    assert found.figures["opened by Outlast"] == 1
    assert found.figures["power failed again"] == 12
    assert found.figures["opened again"] == 2
