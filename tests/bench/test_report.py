from dataclasses import replace
from pathlib import Path

import pytest

from bench import document, figures, report
from bench.results import Row
from tests.bench.rows import BAD, FAIR, GOOD, LESS


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (GOOD, "aim reached"),
        (replace(GOOD, ratio=0.8), "aim reached"),
        (FAIR, "reached"),
        (replace(GOOD, ratio=0.5), "reached"),
        (BAD, "**not reached**"),
        (LESS, "**not reached**"),
        (replace(LESS, ratio=40.0), "reached"),
        (replace(LESS, ratio=29.0), "aim reached"),
        (replace(GOOD, at_least=None, aim=None), ""),
    ],
)
def test_a_verdict_is_given_in_words(row: Row, word: str) -> None:
    assert report.verdict(row) == word


def test_a_line_shows_figures_spread_bounds_and_verdict() -> None:
    assert report.line(GOOD) == (
        "| enqueue | 90/s | raw: 100/s | 0.9 | 0.8 to 1 | 0.5 | 0.8 | aim reached |"
    )
    assert "| 45 | 44 to 46 | at most 40 | 30 | **not reached** |" in report.line(LESS)


def test_bad_results_are_published_and_named_once_more() -> None:
    text = report.body(
        {"one": figures.Scenario("a machine", "90 µs, 0.1", [GOOD, FAIR, BAD, LESS])}, ["one"]
    )
    assert text.count("**not reached**") == 2
    assert "- Not reached: slow: 0.3, at least 0.5 wanted." in text
    assert "- Not reached: memory: 45, at most 40 wanted." in text
    assert "- Short of its aim: fair: 0.6 of 0.8." in text
    assert "Measured on a machine." in text


def test_scenarios_measured_on_different_machines_say_so() -> None:
    found = {
        "one": figures.Scenario("an old machine", "9 µs, 0.1", [GOOD]),
        "two": figures.Scenario("a new machine", "1 µs, 0.2", [BAD]),
        "three": figures.Scenario("an old machine", "8 µs, 0.3", [FAIR]),
    }
    said = report.machines(found, ["one", "two", "three"])
    assert "Measured on an old machine: one, three." in said
    assert "Measured on a new machine: two." in said
    assert "one 9 µs, 0.1; two 1 µs, 0.2; three 8 µs, 0.3." in said


def test_one_scenario_is_kept_without_touching_the_others(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    old, new = (figures.Scenario("m", "c", rows) for rows in ([GOOD, BAD], [LESS]))
    other = figures.Scenario("m", "c", [FAIR])
    figures.keep("one", old, path)
    figures.keep("two", other, path)
    figures.keep("one", new, path)
    assert figures.load(path) == {"one": new, "two": other}
    assert report.in_order(figures.load(path), ["two", "never run", "one"]) == [FAIR, LESS]


def test_a_section_is_rewritten_in_its_place_and_the_others_survive(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    document.write_section("Guards", "one\n\n### Part\n\ntwo", page)
    document.write_section("How fast", "three", page)
    document.write_section("Guards", "four", page)
    assert page.read_text(encoding="utf-8") == (
        "# Benchmarks\n\n## Guards\n\nfour\n\n## How fast\n\nthree\n"
    )
