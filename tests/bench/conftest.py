import os

import pytest


@pytest.fixture(autouse=True)
def _no_waiting_for_everybodys_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness lets all writes settle before each block; other tests' writes need not."""
    monkeypatch.setattr(os, "sync", lambda: None)
