from pathlib import Path

import pytest

from bench import paired
from bench.machine import file_system_of, on_disk


def noting(name: str, calls: list[str], rates: list[float]) -> paired.Contestant:
    left = iter(rates)

    def contestant(folder: Path) -> float:
        calls.append(name)
        return next(left)

    return contestant


def test_every_contestant_begins_a_block_once() -> None:
    calls: list[str] = []
    contestants = {name: noting(name, calls, [1.0] * 3) for name in "abc"}
    paired.measure(contestants, blocks=3)
    assert "".join(calls) == "abcbcacab"


def test_the_rounds_of_a_block_are_one_rate_and_begin_with_another_each() -> None:
    """Four operations in a second and in three are eight in four, not the mean of the two."""
    calls: list[str] = []
    contestants = {name: noting(name, calls, [4.0, 4 / 3] * 2) for name in "ab"}
    rates = paired.measure(contestants, blocks=2, rounds=2)
    assert "".join(calls) == "abbabaab"
    assert rates == {name: pytest.approx([2.0, 2.0]) for name in "ab"}


def test_a_ratio_is_taken_within_a_block_and_not_between_averages() -> None:
    """In each block ours has half the speed, though one block was ten times slower for both."""
    rates = {"ours": [50.0, 5.0, 60.0], "raw": [100.0, 10.0, 120.0]}
    assert paired.ratio(rates, "ours", "raw") == paired.Ratio(0.5, 0.5, 0.5)


def test_the_figure_is_the_median_and_the_spread_its_extremes() -> None:
    rates = {"ours": [1.0, 2.0, 9.0, 3.0, 4.0], "raw": [1.0] * 5}
    assert paired.ratio(rates, "ours", "raw") == paired.Ratio(3.0, 1.0, 9.0)
    assert paired.typical(rates, "ours") == 3.0


def test_blocks_that_do_not_pair_up_are_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired.ratio({"ours": [1.0], "raw": [1.0, 2.0]}, "ours", "raw")


def test_a_warm_up_runs_first_and_does_not_count() -> None:
    calls: list[str] = []
    rates = paired.measure(
        {"a": noting("a", calls, [2.0])}, blocks=1, warm_up={"w": noting("w", calls, [99.0])}
    )
    assert calls == ["w", "a"]
    assert rates == {"a": [2.0]}


def test_each_block_gets_an_empty_folder_that_goes_afterwards() -> None:
    seen: list[Path] = []

    def contestant(folder: Path) -> float:
        assert not list(folder.iterdir())
        (folder / "left").write_text("behind", encoding="utf-8")
        seen.append(folder)
        return 1.0

    paired.measure({"one": contestant, "other": contestant}, blocks=2)
    assert len(set(seen)) == 4
    assert not [folder for folder in seen if folder.exists()]


def test_a_file_system_is_that_of_the_innermost_mount() -> None:
    assert file_system_of(Path("/proc/self")) == "proc"
    assert file_system_of(on_disk()) != "unknown"
