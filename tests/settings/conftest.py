"""Settings come from the environment too: these tests begin with none of ours in it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The current folder is empty as well, and is not the one the settings files are written to."""
    for name in list(os.environ):
        if name.startswith("OUTLAST_"):
            monkeypatch.delenv(name)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a settings file, and says where."""

    def it(text: str, name: str = "my.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return it
