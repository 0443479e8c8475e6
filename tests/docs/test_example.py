"""The examples tell what happens; here they are taken at their word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.support.foreign import assert_sound, foreign_rows


def run(folder: Path, *arguments: str, example: str = "first.py") -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / example, *arguments],
        env=os.environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_example_tells_of_a_kill_a_recovery_and_a_skipped_page(tmp_path: Path) -> None:
    story = run(tmp_path)
    killed = re.search(r"kill -9 (\d+)", story)
    assert killed
    assert f"worker w1 (pid {killed[1]}) is dead: its lock is free; 1 tasks put back" in story
    assert "attempt 2, token 2; 2 of 4 pages are done already" in story
    assert [line.split() for line in story.splitlines() if " completed   " in line] == [
        ["intro.pdf", "completed", "1", "0", "w1"],
        ["survey.pdf", "completed", "2", "1", "w2"],
        ["appendix.pdf", "completed", "1", "0", "w2"],
    ]
    assert "8 pages, 9 begun" in story


def test_the_example_leaves_nothing_behind_unless_it_is_given_a_store(tmp_path: Path) -> None:
    run(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_example_can_be_repeated_on_a_store_of_yours(tmp_path: Path) -> None:
    store = tmp_path / "mine.db"
    run(tmp_path, str(store))
    run(tmp_path, str(store))
    counts = foreign_rows(store, "SELECT status, count(*) FROM tasks GROUP BY status")
    assert counts == [["completed", 6]]
    crashes = foreign_rows(
        store, "SELECT actor, worker_id FROM transitions WHERE reason = 'crash_retry'"
    )
    assert crashes == [["system/recovery", "w1"]] * 2
    pages = foreign_rows(store, "SELECT DISTINCT task_seq, snapshot_data FROM task_checkpoints")
    written = foreign_rows(store, "SELECT count(*) FROM task_checkpoints")
    assert (len(pages), written) == (16, [[16]]), "each page once, in either run"
    assert_sound(store)


@pytest.mark.slow
def test_the_example_with_coroutines_answers_everybody_and_leaves_nothing_held(
    tmp_path: Path,
) -> None:
    store = tmp_path / "work.db"
    for times in (1, 2):
        story = run(tmp_path, str(store), example="async_first.py")
        assert story.splitlines() == [
            "w1 is cancelled; what it holds goes back",
            "200 answers, 200 tasks completed",
        ]
        counts = foreign_rows(store, "SELECT status, count(*) FROM tasks GROUP BY status")
        assert counts == [["completed", 200 * times]]
    crashes = "SELECT count(*) FROM tasks WHERE recovery_count > 0 OR attempt > 1"
    assert foreign_rows(store, crashes) == [[0]], "what was given back was not charged"
    assert_sound(store)


def test_the_example_with_coroutines_leaves_nothing_behind(tmp_path: Path) -> None:
    run(tmp_path, example="async_first.py")
    assert list(tmp_path.iterdir()) == []
