"""The README's worker runs until it is told to stop; the page on own tables may be repeated."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from outlast import Outlast
from tests.docs.pages import DOCS, ROOT, blocks

DEADLINE_SECONDS = 30


def test_the_worker_of_the_readme_works_and_leaves_on_ctrl_c(tmp_path: Path) -> None:
    (program,) = blocks(ROOT / "README.md", "py")
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
