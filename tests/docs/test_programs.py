"""Programs on pages that take more than running them: workers, commands, repetition."""

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast import Outlast
from tests.docs.pages import DOCS, ROOT, blocks

pytestmark = pytest.mark.slow

README = ROOT / "README.md"
DEADLINE_SECONDS = 60


def test_a_loop_of_your_own_works_and_leaves_on_ctrl_c(tmp_path: Path) -> None:
    (program,) = (block for block in blocks(DOCS / "worker.md", "py") if ".claim(" in block.text)
    with Outlast(tmp_path / "work.db") as app:
        task = app.enqueue("greet", {"name": "Ada"})
        broken = app.enqueue("greet", {}, max_retries=0)
        worker = subprocess.Popen([sys.executable, "-W", "error", "-c", program.text], cwd=tmp_path)
        try:
            _wait_for_the_end_of(app, task.id, broken.id)
            worker.send_signal(signal.SIGINT)
            assert worker.wait(DEADLINE_SECONDS) == 0
        finally:
            worker.kill()
            worker.wait()
        assert app.get(task.id).result == {"said": "hello Ada"}
        assert app.get(broken.id).error == "KeyError: 'name'"


def test_the_ten_lines_of_the_readme_are_a_program_for_the_commands_below_them(
    tmp_path: Path,
) -> None:
    """A new user saves them as jobs.py and types what follows, line by line."""
    program = next(blocks(README, "python"))
    (tmp_path / "jobs.py").write_text(program.text, encoding="utf-8")
    up, enqueue, listing = (
        shlex.split(line.removeprefix("$ outlast "), comments=True)
        for line in list(blocks(README, "console"))[1].text.splitlines()
    )
    assert up == ["up", "jobs.py"]
    worker = subprocess.Popen(
        [sys.executable, "-m", "outlast", *up], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        task_id = _said(tmp_path, enqueue).strip()
        with Outlast(tmp_path / "work.db") as app:
            _wait_for_the_end_of(app, task_id)
            assert app.get(task_id).result == "hello Bob"
        assert task_id in _said(tmp_path, listing)
        worker.send_signal(signal.SIGINT)
        summary, _ = worker.communicate(timeout=DEADLINE_SECONDS)
    finally:
        worker.kill()
        worker.wait()
    assert worker.returncode == 0
    assert "1 completed in " in summary


def _said(folder: Path, words: list[str]) -> str:
    return subprocess.run(
        [sys.executable, "-m", "outlast", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    ).stdout


def _wait_for_the_end_of(app: Outlast, *task_ids: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not all(app.get(task_id).is_final for task_id in task_ids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_examples_of_own_tables_may_be_run_again_on_the_same_file(tmp_path: Path) -> None:
    for block in blocks(DOCS / "own-tables.md", "python"):
        outputs = [_output_of(block.text, tmp_path) for _ in range(2)]
        assert outputs[0] == outputs[1]


def _output_of(program: str, folder: Path) -> str:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
