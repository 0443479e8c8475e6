"""`outlast demo`: what it shows is what happened, it leaves nothing behind, and it can fail."""

import os
import re
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.cli.demo import jobs
from outlast.cli.demo.run import Outcome, Stage, kill, moment, outcome_of, scene_after
from tests.cli.conftest import Call
from tests.cli.shell import DEADLINE_SECONDS, Terminal, command, environment, piped
from tests.docs.pages import DOCS

pytestmark = pytest.mark.slow

FEW = ("--tasks", "40")
MOST_DIGITS = 7
CLAIM = "Nothing was lost, and nothing that was done was done again."
TO_UPDATE = "if this is meant: ./run outlast demo --svg docs/recovery.svg"


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Where the demo makes its folder."""
    found = tmp_path / "temporary"
    found.mkdir()
    return found


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or a corpse that nobody has reaped yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def pids_in(story: str) -> list[int]:
    return [int(pid) for pid in re.findall(r"\(pid (\d+)\) starts", story)]


def test_it_kills_a_worker_shows_that_nothing_was_lost_and_leaves_nothing_behind(
    temporary: Path,
) -> None:
    """A store that the environment names is none of its business."""
    mine = temporary.parent / "mine.db"
    done = piped(temporary.parent, "demo", *FEW, OUTLAST_STORE=str(mine), TMPDIR=str(temporary))
    assert (done.returncode, done.stderr) == (0, "")
    story = done.stdout
    assert "\x1b" not in story
    first, second = pids_in(story)
    assert f"$ kill -9 {first}" in story
    assert f"worker worker-1 (pid {first}) died while running this task" in story
    rows = re.findall(r"^ +(\d+)  (.*)$", story, re.MULTILINE)
    figures = {words: int(number) for number, words in rows}
    assert figures["tasks in all"] == 40
    assert (figures["lost"], figures["done twice"]) == (0, 0)
    before, after = figures["completed and committed"], figures["completed by worker-2"]
    assert before + after == 40
    assert before >= 16
    assert after > 0
    assert story.splitlines()[-1] == CLAIM
    assert list(temporary.iterdir()) == []
    assert not mine.exists()
    assert has_ended(first)
    assert has_ended(second)


def test_its_figures_as_json_are_one_document_and_agree_with_one_another(
    bare: Call, tmp_path: Path
) -> None:
    said = bare("demo", *FEW, "--json")
    assert said.code == 0
    data = said.data
    assert data["claim_held"] is True
    assert data["done_before"] + data["done_after"] == data["tasks"] == 40
    assert 0 < data["begun"] <= data["put_back"] <= data["done_after"]
    assert data["back_seconds"] > 0
    assert [(move["to_status"], move["worker"]) for move in data["history"]] == [
        ("running", "worker-1"),
        ("pending", "worker-1"),
        ("running", "worker-2"),
        ("completed", "worker-2"),
    ]
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_it_is_coloured_and_says_the_same(temporary: Path) -> None:
    with Terminal(temporary.parent, "demo", *FEW, TMPDIR=str(temporary)) as terminal:
        assert terminal.finish() == 0
        assert CLAIM in terminal.seen
        assert "\x1b[1;31m$ kill -9" in terminal.seen
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_clears_up_first(temporary: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        command("demo", "--tasks", "5000"),
        cwd=temporary.parent,
        env=environment(temporary.parent, TMPDIR=str(temporary)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        story = ""
        while not (pids := pids_in(story)):
            story += process.stdout.readline()
            assert process.poll() is None
        process.send_signal(number)
        process.communicate(timeout=DEADLINE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert list(temporary.iterdir()) == []
    assert has_ended(pids[0])


# The judgement


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as found:
        yield found


def worked_off(stage: Stage) -> Outcome:
    """A demo in which this process plays both workers, and leaves one task undone."""
    app, own_pid = stage.app, os.getpid()
    texts = stage.fill(20)
    for lease in app.claim("worker-1", limit=10):
        lease.complete(result_of(lease.payload))
    scene = scene_after(journal(stage, []), moment(), own_pid)
    for lease in app.claim("worker-2", limit=9):
        lease.complete(result_of(lease.payload))
    return outcome_of(stage, texts, scene, own_pid)


def result_of(payload: dict[str, str]) -> dict[str, int]:
    return {"words": jobs.words(Path(payload["path"]).read_bytes())}


def journal(stage: Stage, task_ids: list[str]) -> Stage:
    lines = [f"{os.getpid()} {task_id}\n" for task_id in task_ids]
    (stage.folder / jobs.JOURNAL).write_text("".join(lines))
    return stage


def test_a_task_that_is_not_done_in_the_end_counts_as_lost(stage: Stage) -> None:
    outcome = worked_off(stage)
    assert (outcome.lost, outcome.done_twice, outcome.claim_held) == (1, 0, False)
    assert (outcome.done_before, outcome.done_after) == (10, 9)


def test_a_wrong_result_counts_as_lost(stage: Stage) -> None:
    texts = stage.fill(20)
    scene = scene_after(journal(stage, []), moment(), 1)
    for place, lease in enumerate(stage.app.claim("worker-2", limit=20)):
        lease.complete({"words": -1} if place == 3 else result_of(lease.payload))
    assert outcome_of(stage, texts, scene, 2).lost == 1


def test_a_task_that_was_done_and_is_begun_again_counts_as_done_twice(stage: Stage) -> None:
    texts = stage.fill(20)
    leases = stage.app.claim("worker-1", limit=20)
    for lease in leases:
        lease.complete(result_of(lease.payload))
    scene = scene_after(journal(stage, []), moment(), 1)
    assert outcome_of(stage, texts, scene, os.getpid()).claim_held
    journal(stage, [leases[7].task_id])
    outcome = outcome_of(stage, texts, scene, os.getpid())
    assert (outcome.lost, outcome.done_twice, outcome.claim_held) == (0, 1, False)


def test_a_claim_that_does_not_hold_shows_in_the_exit_code(
    bare: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Outcome(20, 8, 8, 8, 11, 1, 0, None, None, ())
    monkeypatch.setattr("outlast.cli.demo.command.outcome_of", lambda *arguments: broken)
    said = bare("demo", "--tasks", "20")
    assert said.code == 1
    assert CLAIM not in said.out
    assert "This is not what Outlast promises" in said.out


def test_a_worker_that_is_killed_takes_its_helpers_along(stage: Stage) -> None:
    stage.fill(2000)
    worker = stage.start("worker-1")
    stage.wait_for_the_middle(worker, 20)
    helpers = children_of(worker.pid)
    assert helpers, "the worker has a store process"
    kill(worker)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not all(has_ended(pid) for pid in helpers):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def children_of(pid: int) -> list[int]:
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in words]


# The picture


def lines_of(svg: str) -> list[str]:
    """What is written in a picture, line by line, with all numbers, times and ids made alike."""
    rows: dict[float, str] = defaultdict(str)
    for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        rows[float(text.get("y", "-1"))] += text.text or ""
    lines = (" ".join(rows[y].split()) for y in sorted(rows))
    return [re.sub(r"(?<!worker-)\b\d[\d.,:TZ-]*(ms|s|m)?\b", "#", line) for line in lines if line]


def test_the_picture_in_the_docs_is_what_the_program_makes(tmp_path: Path, bare: Call) -> None:
    made = tmp_path / "made.svg"
    assert bare("demo", *FEW, "--svg", str(made)).code == 0
    kept = (DOCS / "recovery.svg").read_text("utf-8")
    drawn, wanted = lines_of(made.read_text("utf-8")), lines_of(kept)
    for one, other in zip(drawn, wanted, strict=True):
        # Where a long line is cut depends on how many digits a pid has.
        shorter, longer = sorted((one, other), key=len)
        assert longer.startswith(shorter), TO_UPDATE
        assert len(longer) - len(shorter) <= MOST_DIGITS, TO_UPDATE
    assert CLAIM in lines_of(kept)


def test_the_picture_needs_nothing_from_a_network() -> None:
    svg = (DOCS / "recovery.svg").read_text("utf-8")
    for word in ("@font-face", "@import", "href", "<script", "<image", "url(http", 'url("http'):
        assert word not in svg
