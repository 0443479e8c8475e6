"""The judge can be convinced of a defect: each of these is planted, and found."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from outlast_lab.experiment import Plan
from outlast_lab.power.judging import read_image
from outlast_lab.power.recording import SYNC, WRITE, Event, Recording
from outlast_lab.power.tally import Tally
from tests.support.children import Child


def _judges_a_planted_defect(defect: str, folder: str) -> None:
    from pathlib import Path

    from outlast import Outlast
    from outlast_lab.history import ANSWERED, ASKS
    from outlast_lab.power.choices import NONE
    from outlast_lab.power.driving import record_driven
    from outlast_lab.power.judging import Judge
    from outlast_lab.set_clock import SetClock
    from tests.support.childside import say

    def live(path, write):  # type: ignore[no-untyped-def]
        app = Outlast(path, clock=SetClock()).open()
        asked = [ASKS, "1", "a", "enqueue_many", {"ids": ["x", "y"], "payloads": [1, 2]}, 1.0, 0]
        answer = [ANSWERED, "1", "a", "done", ["x", "y"], 2.0, 0]
        write(asked)
        if defect == "acknowledged first":
            write(answer)
        if defect == "in two transactions":
            app.enqueue("work", 1, id="x")
            app.enqueue("work", 2, id="y")
        elif defect != "acknowledged and not done":
            app.enqueue_many("work", [1, 2], id=["x", "y"])
        if defect == "unasked for":
            app.enqueue("work", 3, id="z")
        if defect != "acknowledged first":
            write(answer)

    place = Path(folder)
    (place / "store").mkdir()
    (place / "images").mkdir()
    recording = record_driven(live, place / "store" / "a.db", place / "life", [])
    judge = Judge(recording, place / "images")
    verdicts = judge.learn()
    verdicts += [judge.judge(cut, NONE) for cut in range(len(recording.events) + 1)]
    say([[verdict.choice, *complaint] for verdict in verdicts for complaint in verdict.complaints])


@pytest.mark.parametrize(
    ("defect", "choices", "kind", "words"),
    [
        ("acknowledged first", {"none", "all"}, "lost", "x was stored by"),
        ("acknowledged and not done", {"none", "all"}, "lost", "x was stored by"),
        ("in two transactions", {"all"}, "broken", "was done in 2 transactions"),
        ("unasked for", {"none", "all"}, "lost", "phantom: z was never asked for"),
    ],
)
def test_a_planted_defect_is_found(
    tmp_path: Path, defect: str, choices: set[str], kind: str, words: str
) -> None:
    with Child(_judges_a_planted_defect, defect, tmp_path.resolve()) as child:
        complaints = child.hear()
    assert {choice for choice, one, text in complaints if one == kind and words in text} == choices


def test_without_a_defect_nothing_is_found(tmp_path: Path) -> None:
    with Child(_judges_a_planted_defect, "none", tmp_path.resolve()) as child:
        assert child.hear() == []


def test_a_control_that_does_no_harm_says_that_the_experiment_is_blind(tmp_path: Path) -> None:
    tally = Tally(Plan(tmp_path))
    tally.controlled("off", "settle", [(1, "none", "image", [])])
    tally.check_controls(["off"], {})
    (finding,) = tally.findings
    assert "this experiment is blind" in finding.what


def test_a_control_that_was_not_played_is_a_finding(tmp_path: Path) -> None:
    tally = Tally(Plan(tmp_path))
    tally.controlled("off", "settle", [(1, "none", "image", [("lost", "a commit")])])
    tally.check_controls(["off", "normal"], {"normal": "was not played: it fell over"})
    (finding,) = tally.findings
    assert finding.case == "normal"
    assert "it fell over: this experiment is blind" in finding.what


def test_power_has_not_failed_at_a_boundary_where_nothing_was_taken_away(tmp_path: Path) -> None:
    events = [Event(WRITE, "a.db", 0, b"new"), Event(SYNC, "a.db")]
    tally = Tally(Plan(tmp_path), ["life"])
    whole: list[tuple[int, str, str, list[str]]] = [
        (cut, "all", f"whole {cut}", []) for cut in range(3)
    ]
    tally.begin("life", Recording("a.db", {"a.db": b"old"}, [], events), whole)
    tally.judged("life", whole)
    figures = tally.findings_of().figures
    assert (figures["sync boundaries"], figures["with a loss"]) == ("0 of 2", 0)
    tally.judged("life", [(1, "none", "whole 0", []), (2, "none", "whole 2", [])])
    figures = tally.findings_of().figures
    assert (figures["sync boundaries"], figures["with a loss"]) == ("2 of 2", 1)


def test_an_image_that_two_processes_open_counts_once(tmp_path: Path) -> None:
    tally = Tally(Plan(tmp_path))
    for _ in range(2):
        opened = {"opened": [(1, "none", "image", [])], "again": [], "opened again": 0}
        tally.reopened("settle", opened)
    assert tally.findings_of().figures["opened by Outlast"] == 1


def test_a_normal_sync_may_lose_and_not_break(tmp_path: Path) -> None:
    tally = Tally(Plan(tmp_path))
    tally.controlled("normal", "settle", [(1, "none", "image", [("lost", "the last commit")])])
    assert tally.findings == []
    tally.controlled("normal", "settle", [(2, "none", "image", [("broken", "a page")])])
    (finding,) = tally.findings
    assert finding.case == "normal/settle/cut 2/none"


def test_damage_is_seen_in_a_file_whose_rows_are_known(tmp_path: Path) -> None:
    """Two files with the same rows need not be equally sound: the index of one lacks a row."""
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as made:
        made.executescript("CREATE TABLE t (a); CREATE INDEX i ON t (a); INSERT INTO t VALUES (7)")
        (page,) = made.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'i'").fetchone()
        (page_bytes,) = made.execute("PRAGMA page_size").fetchone()
    sound = read_image(file)
    assert sound.stored.faults == {}
    content = bytearray(file.read_bytes())
    content[page * page_bytes - 2] += 1
    file.write_bytes(content)
    found = read_image(file, lambda content: content == sound.content)
    assert (found.content, list(found.stored.faults)) == (sound.content, ["no page is damaged"])
