"""Every Python block of the README and the docs runs, and prints what it says it prints."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_page import COMMANDS
from tests.docs.pages import DOCS, ROOT, Block, blocks, pages, prose, section, spans, table

pytestmark = pytest.mark.slow

README = ROOT / "README.md"
BLOCKS = [block for page in pages() for block in blocks(page, "python")]


@pytest.mark.parametrize("block", BLOCKS, ids=[f"{block.page}:{block.line}" for block in BLOCKS])
def test_a_block_runs_in_an_empty_folder_and_prints_what_it_says(
    block: Block, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.text],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = (line.strip() for line in block.text.splitlines())
    promised = [line.removeprefix("#> ") for line in lines if line.startswith("#> ")]
    assert done.stdout.splitlines() == promised


def test_the_readme_opens_with_code_that_runs() -> None:
    first = next(blocks(README, "python"))
    assert first.line < 40
    for word in ("@app.task", ".enqueue(", ".worker(", ".run(", ".wait("):
        assert word in first.text
    code = [line for line in first.text.splitlines() if line and not line.strip().startswith("#")]
    assert len(code) <= 10


def test_the_readme_names_the_two_commands_before_anything_else() -> None:
    commands = next(blocks(README, "console"))
    assert commands.line < 15
    up, test = commands.text.splitlines()
    assert up.startswith("$ ./run up examples/")
    assert (ROOT / up.split()[3]).is_file()
    assert test.startswith("$ ./run test")


def test_the_readme_shows_six_commands_that_are_there() -> None:
    listed = [
        re.sub(r" [A-Z]+$", "", spans(row[0])[0]) for row in table(section(README, "Commands"))[1:]
    ]
    assert len(set(listed)) == 6
    assert set(listed) <= set(COMMANDS)


def test_the_readme_says_of_other_queues_what_the_benchmarks_say() -> None:
    """Without the figures, which change with every run."""
    said = dict(table(section(README, "How it compares"))[1:])
    measured = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    known = dict(re.findall(r"against ([\w-]+) [\d.]+ \(([^)]+)\)", measured))
    assert said == known


def test_the_readme_shows_the_picture_and_says_what_is_on_it() -> None:
    (words, target) = re.findall(r"!\[([^]]+)\]\(([^)]+)\)", prose(README))[0]
    assert (ROOT / target).is_file()
    assert "kill -9" in words
