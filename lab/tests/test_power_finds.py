"""Defects that only another boot, or only the whole run, can show."""

from pathlib import Path

import pytest

from lab.tests.planted import planted


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("place", "change", "words"),
    [
        (
            "read_begun",
            ("raw[: _HEADER.size] != _header(incarnation)",
             "raw[:32] != _header(incarnation)[:32]"),
            "was refunded on the word of another boot",
        ),
    ],
    ids=["lock files of any boot are believed"],
)  # fmt: skip
def test_what_another_boot_must_not_believe_or_forget_is_found(
    tmp_path: Path, place: str, change: tuple[str, str], words: str
) -> None:
    told = planted(tmp_path, place, change, "power", "heal")
    whats = [one["what"] for run in told["experiments"] for one in run["violations"]]
    assert any(words in what for what in whats)


@pytest.mark.timeout(300)
def test_a_call_that_was_done_in_parts_is_found_again_by_its_own_case(tmp_path: Path) -> None:
    """Only whoever sees the whole run can tell, so the replay has to look at it too."""
    call = "return settle.complete(self._session, self._claimed, result, also).result()"
    change = (call, f"self.renew()\n        {call}")
    words, case = "complete was done in 2 transactions", "finish and flush"
    for folder in ("first", "again"):
        told = planted(tmp_path / folder, "Lease.complete", change, "power", case)
        (run,) = told["experiments"]
        (case,) = {one["case"] for one in run["violations"] if words in one["what"]}
