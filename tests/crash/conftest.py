"""What tests share that take files away."""

import pytest

from outlast.store.sqlite.file_guard import FileGuard


@pytest.fixture(autouse=True)
def _no_look_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file taken away within a millisecond of a write is noticed only after the next commit.

    What a test sees would depend on how fast the machine is; tests/store has tests of both ways.
    """
    monkeypatch.setattr(FileGuard, "recent_seconds", 0.0)
