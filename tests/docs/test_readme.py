"""Every Python block of the README and the docs runs, and prints what it says it prints."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, blocks, pages

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
    first = next(blocks(ROOT / "README.md", "python"))
    assert first.line < 40
    for word in ("enqueue", "claim", "complete", "fail"):
        assert f".{word}(" in first.text
    code = [line for line in first.text.splitlines() if line and not line.startswith("#")]
    assert len(code) <= 12


def test_the_readme_names_the_two_commands() -> None:
    commands = next(blocks(ROOT / "README.md", "console")).text
    assert "$ ./run test" in commands
    assert "$ ./run python examples/first.py" in commands
