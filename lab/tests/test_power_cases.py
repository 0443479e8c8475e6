"""What a run does whatever the time, and which texts name a case of it."""

import os
from pathlib import Path

import pytest

from outlast.errors import InvalidInput
from outlast_lab.experiment import Plan
from outlast_lab.power.hand import LYING
from outlast_lab.power.hands import OWNER, PREFIX, Hands, clear_what_the_dead_left
from outlast_lab.power.judging import read_image
from outlast_lab.power.own_lives import ALL_LIVES
from outlast_lab.power.running import CALIBRATION, CONTROLS, Run


@pytest.mark.timeout(120)
@pytest.mark.parametrize("limit", [{"seconds": 0.01}, {"cases": 1}])
def test_a_run_without_time_still_loses_something_at_each_sync_of_a_life(
    tmp_path: Path, limit: dict[str, float]
) -> None:
    plan = Plan(tmp_path.resolve(), seed=0, **limit)  # type: ignore[arg-type]
    found = Run(plan, ["finish and flush", *(set(ALL_LIVES) - {"finish and flush"})]).all()
    assert found.violations == []
    played = int(str(found.figures["lives"]).split(" of ")[0])
    assert 1 <= played < len(ALL_LIVES)
    hit, total = str(found.figures["sync boundaries"]).split(" of ")
    assert hit == total != "0"
    assert int(found.figures["with a loss"]) > 0
    assert int(found.figures["opened by Outlast"]) >= played
    assert {f"control {mode}" for mode in CONTROLS} <= set(found.figures)
    assert any("there was no room for these lives" in note for note in found.notes)


@pytest.mark.parametrize("case", [CALIBRATION, "off", LYING])
def test_a_case_that_is_no_image_is_played_again(tmp_path: Path, case: str) -> None:
    found = Run(Plan(tmp_path.resolve(), case=case), list(ALL_LIVES)).all()
    assert (found.violations, found.notes) == ([], [])
    assert [one for one in found.figures if one.startswith("control")] == (
        [] if case == CALIBRATION else [f"control {case}"]
    )


@pytest.mark.parametrize(
    "text",
    [
        "nobody", "", "settle/41/none", "settle/cut ²/none", "a/b/settle/cut 1/none",
        "nobody/cut 1/none", "odd/settle/cut 1/none", "migrate/cut 99999/none",
        "migrate/cut 1/guess 3", "migrate/cut 1/", "migrate/cut 1/drop x", "migrate/cut 1/none 3",
    ],
)  # fmt: skip
def test_a_text_that_names_no_case_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"a case is a life|choose from"):
        Run(Plan(tmp_path.resolve(), case=text), list(ALL_LIVES)).all()


def test_an_image_is_read_wherever_it_lies(tmp_path: Path) -> None:
    folder = tmp_path / "100% ü?mode=ro#x"
    folder.mkdir()
    (folder / "a.db").write_bytes(b"")
    assert read_image(folder / "a.db").stored.faults == {}


def test_only_folders_whose_owner_is_dead_are_cleared(tmp_path: Path) -> None:
    left, new, other = (tmp_path / name for name in (f"{PREFIX}left", f"{PREFIX}new", "another"))
    for folder in (left, new, other):
        folder.mkdir()
    for folder in (left, other):
        (folder / OWNER).touch()
    (tmp_path / f"{PREFIX}link").symlink_to(other)
    clear_what_the_dead_left(tmp_path)
    assert not left.exists()
    assert new.exists(), "it has no owner yet"
    assert other.exists()
    os.utime(new, (0, 0))
    clear_what_the_dead_left(tmp_path)
    assert not new.exists()


def test_the_folder_of_who_lives_stays_and_goes_with_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast_lab.power.hands.MEMORY", tmp_path)

    def interrupted() -> None:
        with Hands(tmp_path, 1):
            clear_what_the_dead_left(tmp_path)
            assert [one.name.startswith(PREFIX) for one in tmp_path.iterdir()] == [True]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
