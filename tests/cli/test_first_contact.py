"""The first thing a new user runs: an example that indexes a folder, killed and started again."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.shell import DEADLINE_SECONDS, command, environment, piped
from tests.docs.pages import ROOT
from tests.support.foreign import assert_sound, foreign_rows

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "index_folder.py"
FILES = 60


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder of texts, with what must be left out among them."""
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for number in range(FILES):
        place = folder / "deep" if number % 2 else folder
        (place / f"{number:03}.md").write_text(f"text number{number} " + "word " * 2000)
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / ".hidden" / "secret.md").write_text("not for the index")
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where it is run, and where its files go."""
    found = tmp_path / "place"
    found.mkdir()
    return found


def texts_in(notes: Path) -> dict[str, str]:
    files = [*notes.glob("*.md"), *notes.glob("deep/*.md")]
    return {str(path): path.read_text() for path in files}


def indexed(place: Path) -> list[tuple[str, str]]:
    """The rows of the example's own tables; none while they are not there yet."""
    if not (place / "index.db").exists():
        return []
    with closing(sqlite3.connect(place / "index.db", timeout=60)) as connection:
        is_there = "SELECT 1 FROM sqlite_schema WHERE name = 'texts'"
        if connection.execute(is_there).fetchone() is None:
            return []
        query = "SELECT path, text FROM texts LEFT JOIN files ON files.id = texts.rowid"
        return connection.execute(query).fetchall()


def count_indexed(place: Path) -> int:
    """How many texts there are; quickly, as the next may come at any moment."""
    if not (place / "index.db").exists():
        return 0
    with closing(sqlite3.connect(place / "index.db", timeout=60)) as connection:
        query = "SELECT count(*) FROM sqlite_schema WHERE name = 'files'"
        if connection.execute(query).fetchone() == (0,):
            return 0
        (count,) = connection.execute("SELECT count(*) FROM files").fetchone()
        return int(count)


def up(place: Path, notes: Path) -> "subprocess.CompletedProcess[str]":
    done = piped(place, "up", EXAMPLE, INDEX_FOLDER=str(notes))
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def killed_when(place: Path, notes: Path, is_time: Callable[[], bool]) -> None:
    """Start it, wait for the moment, and kill it; results wait long enough to be lost by that."""
    patient = environment(place, INDEX_FOLDER=str(notes), OUTLAST_SETTLE_DELAY_SECONDS="10")
    process = subprocess.Popen(
        command("up", EXAMPLE),
        cwd=place,
        env=patient,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not is_time():
            assert time.monotonic() < deadline
            assert process.poll() in (None, 0), "it failed before its time"
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_SECONDS)


def test_it_indexes_every_text_of_the_folder_sums_up_and_ends_by_itself(
    place: Path, notes: Path
) -> None:
    done = up(place, notes)
    assert dict(indexed(place)) == texts_in(notes)
    assert len(indexed(place)) == FILES
    assert f"{FILES} files of {notes} can be searched" in done.stderr
    assert re.search(rf"^worker \S+: {FILES + 1} completed in ", done.stdout, re.MULTILINE)
    assert f"the store holds {FILES + 1} completed" in done.stdout


def test_killed_at_several_moments_it_goes_on_where_it_was(place: Path, notes: Path) -> None:
    """What a kill cuts short is done again, what was done is not: one row for each file."""
    moments: list[Callable[[], bool]] = [
        (place / "index-work.db").exists,
        lambda: count_indexed(place) >= 1,
        lambda: count_indexed(place) >= FILES // 2,
        lambda: count_indexed(place) == FILES,
    ]
    for is_time in moments:
        killed_when(place, notes, is_time)
    up(place, notes)
    rows = indexed(place)
    assert dict(rows) == texts_in(notes)
    assert len(rows) == FILES, "each file has one row"
    store = place / "index-work.db"
    ends = foreign_rows(
        store,
        "SELECT t.status, count(*) FROM tasks t JOIN transitions x ON x.task_seq = t.seq"
        " WHERE t.kind = 'index' AND x.to_status = 'completed' GROUP BY t.seq",
    )
    assert ends == [["completed", 1]] * FILES, "one task for each file, completed once"
    again = "SELECT count(*) FROM tasks WHERE kind = 'index' AND recovery_count > 0"
    assert foreign_rows(store, again) != [[0]], "the kills cut something short"
    assert_sound(store)


def test_started_again_it_does_only_what_is_new(place: Path, notes: Path) -> None:
    up(place, notes)
    changed = notes / "000.md"
    changed.write_text("something else entirely")
    done = up(place, notes)
    assert dict(indexed(place)) == texts_in(notes)
    assert len(indexed(place)) == FILES
    assert re.search(r"^worker \S+: 2 completed in ", done.stdout, re.MULTILINE), done.stdout


def test_what_is_indexed_can_be_searched(place: Path, notes: Path) -> None:
    up(place, notes)
    found = subprocess.run(
        [sys.executable, EXAMPLE, "number7"],
        cwd=place,
        env=environment(place, INDEX_FOLDER=str(notes)),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    ).stdout
    assert found.splitlines()[0] == str(notes / "deep" / "007.md")
    assert "[number7]" in found
    assert "number8" not in found


def test_a_folder_without_texts_is_refused_in_one_sentence(place: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = piped(place, "up", EXAMPLE, INDEX_FOLDER=str(empty))
    assert done.returncode == 2
    assert "set INDEX_FOLDER to a folder that has some" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_run_script_passes_up_on_to_the_command(
    place: Path, notes: Path, tmp_path: Path
) -> None:
    """In a copy whose environment is said to be current: nothing is installed here."""
    root = tmp_path / "clone"
    binaries = root / ".venv" / "bin"
    binaries.mkdir(parents=True)
    names = ("pyproject.toml", "lab/pyproject.toml", "requirements.lock", "run")
    inputs = [ROOT / name for name in names]
    (root / "lab").mkdir()
    for name in names:
        (root / name).write_bytes((ROOT / name).read_bytes())
    (root / "run").chmod(0o755)
    stamp = f"{root}\n".encode() + b"".join(file.read_bytes() for file in inputs)
    (root / ".venv" / "stamp").write_bytes(stamp)
    for name, words in (("python", ""), ("outlast", "-m outlast ")):
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
        script.chmod(0o755)
    done = subprocess.run(
        [root / "run", "up", EXAMPLE],
        cwd=place,
        env=environment(place, INDEX_FOLDER=str(notes), PATH=os.environ["PATH"]),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(indexed(place)) == FILES
