"""Every scenario runs, on sizes too small to mean anything."""

import importlib
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import figures
from bench.load import Sizes
from bench.scenarios import processes
from bench.scenarios.working import BATCH

pytestmark = pytest.mark.slow

TINY = Sizes(
    blocks=1, rounds=1, warm_seconds=0, singly=5, callers=256, bulk=50, working=200, processes=400,
    claims=200,
    finished=300, delayed=50, foreign=50, running=(30,), kills=1, workers=4, dead_workers=2,
    starts=1, peers=2, profiled=5,
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "singly", "callers", "bulk", "working", "crowded", "putback", "guarding", "detecting",
        "footprint", "opening", "commands",
    ],
)  # fmt: skip
def test_a_scenario_gives_rows_with_figures(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"bench.scenarios.{name}")
    monkeypatch.setattr(f"bench.scenarios.{name}.QUICK", TINY, raising=False)
    rows = module.run(TINY)
    assert rows
    for row in rows:
        assert row.low <= row.ratio <= row.high
        assert row.what


def test_four_processes_share_a_queue_and_do_nothing_twice(tmp_path: Path) -> None:
    balances: list[float] = []
    assert processes.together(4, TINY.processes, balances)(tmp_path) > 0
    assert 0 <= balances[0] <= 1


def test_work_done_twice_is_noticed(tmp_path: Path) -> None:
    balances: list[float] = []
    processes.together(1, 100, balances)(tmp_path)
    share = processes.Share(100, 0.0, 1.0, BATCH)
    processes.refuse_doubles(tmp_path / "work.db", 200, [share])
    with pytest.raises(AssertionError):
        processes.refuse_doubles(tmp_path / "work.db", 200, [share, share])
    with pytest.raises(AssertionError, match="of 99 tasks"):
        processes.refuse_doubles(tmp_path / "work.db", 99, [share])


def test_an_unknown_name_is_refused_and_the_known_ones_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        command.main(["enqueu"])
    assert "there are: enqueue, callers, burning, bulk" in capsys.readouterr().err


def test_quick_figures_are_never_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["enqueue", "--quick", "--write"])
    assert "not kept" in capsys.readouterr().err


def test_a_benchmark_that_fails_does_not_keep_the_others_from_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run(name: str, sizes: Sizes, write: bool) -> None:
        ran.append(name)
        if name == "bulk":
            raise RuntimeError("no room")

    monkeypatch.setattr(command, "run", run)
    assert command.main(["enqueue", "bulk", "working"]) == 1
    assert ran == ["enqueue", "bulk", "working"]
    assert "failed: bulk" in capsys.readouterr().err


def test_a_run_that_is_not_kept_leaves_the_figures_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = figures.load()
    monkeypatch.setattr(command, "run_scenario", lambda name, sizes: [])
    assert command.main(["enqueue", "--quick"]) == 0
    assert figures.load() == before
    assert "== enqueue" in capsys.readouterr().out
