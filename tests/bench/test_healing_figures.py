"""The figures of recovery and healing: what is timed is what happened, and nothing else passes."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench import figures, load
from bench.scenarios import detecting, putback, reruns, resting
from outlast import Outlast, Settings
from tests.bench.test_scenarios import TINY


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "work.db"
    Outlast(path).open().close()
    return path


@pytest.mark.slow
def test_a_killed_workers_task_is_run_again_by_the_other_one(store: Path) -> None:
    with Outlast(store) as app:
        crew = reruns.Crew(store, app)
        try:
            took_ms = reruns.sample_ms(app, crew)
        finally:
            crew.close()
        (task,) = app.tasks()
        assert (task.attempt, task.recovery_count) == (2, 1)
    assert 0 < took_ms < reruns.PATIENCE_SECONDS * 1000


def test_the_figure_of_reruns_is_that_of_all_kills_and_the_spread_that_of_the_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = iter([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 99.0]])
    monkeypatch.setattr(reruns, "block_ms", lambda kills: next(blocks))
    middle, slowest = reruns.run(replace(TINY, blocks=3))
    assert (middle.ratio, middle.low, middle.high) == (5.0, 2.0, 8.0)
    assert slowest.ratio > 90
    assert (middle.at_least, middle.aim, slowest.at_least) == (50, 10, 1000)
    assert not middle.higher_is_better
    assert not slowest.higher_is_better


def test_a_look_at_workers_that_did_not_die_is_no_burial(store: Path) -> None:
    """Without deaths nothing comes back, and the scenario must not publish such a figure."""
    staff = detecting.Staff(store)
    try:
        staff.hire(3)
        staff.kill = lambda count: None  # type: ignore[method-assign]
        with pytest.raises(AssertionError, match="0 of 20 tasks were put back"):
            detecting.look(staff, store, dead=2)
    finally:
        del staff.kill
        staff.dismiss()


def test_the_staff_lives_by_its_lock_files_and_dies_by_them(store: Path) -> None:
    staff = detecting.Staff(store)
    try:
        staff.hire(3, tasks_each=2)
        # Else its detector puts them back before the call that counts them.
        with Outlast(store, settings=Settings(detection_interval_seconds=0)) as app:
            assert app.counts()["running"] == 6
            staff.kill(1)
            assert app.heal().entries_reclaimed == 2
            assert app.counts()["running"] == 4
    finally:
        staff.dismiss()


def test_what_recovery_left_behind_is_noticed(tmp_path: Path) -> None:
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    putback.make_ours(prepared, 5)
    with pytest.raises(AssertionError, match="5 of 6"):
        putback.ours(prepared, 6, [], [])(tmp_path / "block")


@pytest.mark.proves("PRF-03")
def test_recovery_is_measured_at_all_sizes_and_the_figures_are_kept() -> None:
    sizes = (1_000, 10_000, 100_000)
    assert load.FULL.running[:3] == sizes
    kept = figures.load()["healing"].rows
    for count in sizes:
        (row,) = [one for one in kept if one.what.startswith(f"recovery of {count:,} running")]
        assert row.ratio > 0
        assert row.at_least == 3


@pytest.mark.slow
@pytest.mark.proves("PRF-05")
def test_beats_of_fifty_leases_take_less_than_a_hundredth_of_a_processor(tmp_path: Path) -> None:
    """Ten times as often as they come by default, and what a worker costs beside them included."""
    assert resting.beating(tmp_path, seconds=8, beat_seconds=3) < 1
