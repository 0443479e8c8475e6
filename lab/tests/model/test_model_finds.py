"""The simulator can fail: planted defects are found, and shrunk to a few steps."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from outlast.clock import Instant
from outlast.domain import lifecycle
from outlast.domain.lifecycle import Cause, Outcome, Situation, Status, Transition
from outlast.store.ops import settle
from outlast.store.ops.recovery import expiry, healer, orphans
from outlast.store.ops.recovery.recovery_pass import OrphanQuery, RecoveryPass, Tally, alike
from outlast.store.records import Settlement
from outlast.store.transaction import Transaction
from outlast_lab.experiment import Finding, Plan
from outlast_lab.experiments import model
from outlast_lab.experiments.model import run
from outlast_lab.experiments.model.script import parse
from outlast_lab.experiments.model.simulation import drawn, repeated

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrinking is cut off by time, and a test must not depend on how busy the machine is."""
    monkeypatch.setattr(model, "SHRINK_SECONDS", 400.0)


def _find(folder: Path, cases: Sequence[str]) -> Finding:
    for case in cases:
        found = run(Plan(folder, case=case, keep=folder / "kept")).violations
        if found:
            assert "surprise" not in found[0].what
            return found[0]
    raise AssertionError("the defect was not found")


def _steps(finding: Finding) -> int:
    return len(parse(_script(finding)).steps)


def _script(finding: Finding) -> str:
    assert finding.evidence is not None
    return (finding.evidence / "script.txt").read_text(encoding="utf-8")


def _leases() -> list[str]:
    return [f"exact leases {number}" for number in range(1, 9)]


def _woven(first: int) -> list[str]:
    """From one that is known to be short; the drawing may change, and another one finds it."""
    return [f"woven calls {number}" for number in range(first, first + 15)]


@pytest.fixture
def no_token_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A settle looks at the holder alone, so a worker's lost lease passes for its present one."""
    really = settle.settle_grants

    def lenient(tx: Transaction, ends: Sequence[Settlement], now: Instant) -> list[bool | None]:
        if not ends:
            return []
        rows = tx.rows("situations", {"seqs": tx.ids([one.grant.seq for one in ends])})
        tokens = {
            (one.seq, one.holder): one.token for one in (settle.TaskRow(*row) for row in rows)
        }
        passed = [
            one._replace(grant=one.grant._replace(token=tokens.get(one.grant[:2], one.grant.token)))
            for one in ends
        ]
        return really(tx, passed, now)

    monkeypatch.setattr(settle, "settle_grants", lenient)


@pytest.fixture
def refund_under_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash gives the attempt back although the policy says that it is charged."""
    for outcome in (Outcome.CRASH, Outcome.EXPIRE):
        really = lifecycle._RULES[outcome]

        def refunding(situation: Situation, cause: Cause, really: Any = really) -> Transition:
            moved: Transition = really(situation, cause)
            charged = moved.to is Status.PENDING and moved.attempt == situation.attempt
            return moved._replace(attempt=moved.attempt - charged)

        monkeypatch.setitem(lifecycle._RULES, outcome, refunding)


@pytest.fixture
def lease_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Healing takes a lease in its last millisecond for one that ran out."""
    really = orphans.expired

    def early(tx: Transaction, now: Instant, limit: int, *kinds: Any) -> Any:
        return really(tx, now._replace(mono_ms=now.mono_ms + 1), limit, *kinds)

    for module in (orphans, healer):
        monkeypatch.setattr(module, "expired", early)


@pytest.fixture
def judged_before_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Healing moves what it found by reading, without looking again once it may write."""

    def in_two(self: healer.Healer, this: RecoveryPass, tally: Tally, sweep: OrphanQuery) -> None:
        def find(tx: Transaction) -> list[settle.SameRows]:
            return alike(sweep.find(tx, this.policy.batch), sweep.cause)

        def taken(tx: Transaction, found: list[settle.SameRows]) -> list[settle.Moved]:
            expiry.add_boundaries(tx, found, this.now)
            return settle.move_alike(tx, found, this.now, this.run_id)

        while found := self._access.read("planted", find):
            tally.add([], self._write("heal", partial(taken, found=found)))
        self._write("heal", lambda tx: sweep.last(tx, []))

    monkeypatch.setattr(healer.Healer, "_in_batches", in_two)


@pytest.mark.proves("TST-38")
@pytest.mark.usefixtures("no_token_check")
def test_a_missing_check_of_tokens_is_found_and_told_in_a_few_steps(tmp_path: Path) -> None:
    finding = _find(tmp_path, _leases())
    assert _steps(finding) <= 8
    assert "complete" in _script(finding)


@pytest.mark.usefixtures("no_token_check")
def test_a_missing_check_of_tokens_is_found_between_the_transactions_too(tmp_path: Path) -> None:
    runs = (drawn(tmp_path, case, seed=1) for case in _woven(14))
    broken = next(run.broken for run in runs if run.broken is not None)
    assert "nobody who held token" in broken


@pytest.mark.proves("TST-38")
@pytest.mark.usefixtures("refund_under_retry")
def test_a_crash_that_is_not_charged_is_found_and_told_in_a_few_steps(tmp_path: Path) -> None:
    assert _steps(_find(tmp_path, _leases())) <= 6


@pytest.mark.proves("TST-38")
@pytest.mark.usefixtures("lease_ends_early")
def test_a_lease_that_ends_a_millisecond_early_is_found(tmp_path: Path) -> None:
    finding = _find(tmp_path, _leases())
    assert _steps(finding) <= 6
    assert "clock" in _script(finding)


@pytest.mark.proves("TST-38")
@pytest.mark.usefixtures("judged_before_the_lock")
def test_a_decision_on_what_was_read_before_the_lock_is_found_by_weaving_alone(
    tmp_path: Path,
) -> None:
    """No sequence of whole calls can show it: it needs somebody in between."""
    exact = run(Plan(tmp_path, seed=1, case="exact leases 1"))
    assert exact.violations == []
    assert _steps(_find(tmp_path, _woven(4))) <= 24


@pytest.mark.usefixtures("refund_under_retry")
def test_the_shrunk_script_breaks_in_the_same_way_when_it_is_repeated(tmp_path: Path) -> None:
    finding = _find(tmp_path, _leases())
    again = repeated(tmp_path, parse(_script(finding)), seed=1)
    assert again.broken is not None
    assert finding.what.startswith(again.broken.splitlines()[0][:40])
    assert str(again).strip() == _script(finding).strip()
