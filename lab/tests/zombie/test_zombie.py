"""`lab zombie` in small: what a stopped holder writes when it comes back."""

from collections import Counter
from pathlib import Path

import pytest

from outlast.errors import InvalidInput
from outlast_lab.experiment import Finding, Plan
from outlast_lab.experiments.zombie import inside, matrix, running, working
from outlast_lab.experiments.zombie.cases import MOMENTS, VERBS, Case
from outlast_lab.experiments.zombie.meanwhile import MEANWHILE
from outlast_lab.stage.actors import Company

SHARES = 5


def _each_verb_after_each_state(share: int) -> list[Case]:
    """Moments and ways of claiming take turns, so that each verb meets all of them."""
    pairs = [(verb, state) for state in MEANWHILE for verb in VERBS]
    chosen = []
    for number, pair in enumerate(pairs):
        fitting = [case for case in matrix.CASES if (case.verb, case.meanwhile) == pair]
        chosen.append(fitting[(number + number // len(VERBS)) % len(fitting)])
    states = [state for number, state in enumerate(MEANWHILE) if number % SHARES == share]
    return [case for case in chosen if case.meanwhile in states]


@pytest.mark.proves("TST-37", "CLM-04")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(SHARES))
def test_every_write_of_a_zombie_is_refused_and_changes_nothing(tmp_path: Path, share: int) -> None:
    """Each verb after each thing that can have happened to the task meanwhile."""
    cases = _each_verb_after_each_state(share)
    played: Counter[str] = Counter()
    with Company() as company:
        assert list(matrix.play(cases, Plan(tmp_path), company, played)) == []
    assert played["writes"] == len(cases)


def test_each_verb_meets_each_moment_and_each_state() -> None:
    cases = [case for share in range(SHARES) for case in _each_verb_after_each_state(share)]
    assert {(case.verb, case.meanwhile) for case in cases} == {
        (verb, state) for verb in VERBS for state in MEANWHILE
    }
    for verb in set(VERBS) - {"start"}:
        assert {case.moment for case in cases if case.verb == verb} == set(MOMENTS)
        assert {case.hold for case in cases if case.verb == verb} == {"claim", "prefetch"}


@pytest.mark.proves("TST-37")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(2))
def test_a_real_worker_back_from_the_dead_writes_nothing(tmp_path: Path, share: int) -> None:
    """Handlers in threads, on a loop, in processes; worker, store process or both are stopped."""
    cases, played = working.CASES[share::2], Counter[str]()
    with Company() as company:
        assert list(working.play(cases, Plan(tmp_path), company, played)) == []
    assert played["workers"] == len(cases)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(2))
def test_who_is_stopped_where_others_wait_is_named_to_them(tmp_path: Path, share: int) -> None:
    """Inside transactions, at the gate, in a flush, with the store to itself, while migrating."""
    cases, played = inside.CASES[share::2], Counter[str]()
    with Company() as company:
        assert list(inside.play(cases, Plan(tmp_path), company, played)) == []
    assert played["writers"] == len(cases)


@pytest.mark.timeout(300)
def test_the_experiment_has_some_of_every_kind_and_repeats_by_its_seed(tmp_path: Path) -> None:
    findings = running.run(Plan(tmp_path, seed=7, cases=20))
    assert findings.violations == []
    assert findings.cases == 20
    assert set(findings.figures) == {"writes", "writers", "workers"}
    plan = Plan(tmp_path, seed=7)
    assert matrix.chosen_cases(plan) == matrix.chosen_cases(plan)
    assert matrix.chosen_cases(plan) != matrix.chosen_cases(Plan(tmp_path, seed=8))
    assert sorted(matrix.chosen_cases(plan)) == sorted(matrix.CASES)
    for seed in (1, 2, 3):
        first = matrix.chosen_cases(Plan(tmp_path, seed=seed))[: len(MEANWHILE)]
        assert {case.meanwhile for case in first} == set(MEANWHILE), "a short run sees all states"
    first_round = matrix.chosen_cases(plan)[: len(VERBS) * len(MEANWHILE)]
    assert len({(case.verb, case.meanwhile) for case in first_round}) == len(first_round)


def test_all_texts_of_cases_differ_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    texts = [str(case) for case in (*matrix.CASES, *inside.CASES, *working.CASES)]
    assert len(texts) == len(set(texts))
    with pytest.raises(InvalidInput, match=r"no case of this experiment .* one reads"):
        running.run(Plan(tmp_path, case="something else"))


# What was planted must be found, by the case that is meant to find it.

BLIND_RENEWALS = """
from outlast.store.ops.leases import Leases
def renew_soon(self, grants, *rest):
    done = _real(self, grants, *rest)
    return done.then(lambda answers: [True] * len(grants))
_real, Leases.renew_soon = Leases.renew_soon, renew_soon
"""
ANY_CHECKPOINT = """
from outlast.store.sqlite import statements
_real = statements.sql
text = _real("add_checkpoint").replace("t.holder = :holder AND t.token = :token AND ", "")
from outlast.store.sqlite import transaction
assert text != _real("add_checkpoint")
transaction.sql = lambda name: text if name == "add_checkpoint" else _real(name)
"""
STOPPED_IS_DEAD = """
from outlast.store.sqlite.presence.worker_lock_file import ProbedLock
ProbedLock.owner_is_dead = lambda self: True
"""
NOBODY_IS_NAMED = """
from outlast.store.sqlite.write_gate import Patience
_real = Patience.__init__
def blind(self, limits_seconds, culprit, *rest):
    _real(self, limits_seconds, lambda: None, *rest)
Patience.__init__ = blind
"""

NAMED_LATE = """
from outlast.store.sqlite.write_gate import Patience
_real = Patience.__init__
def late(self, limits_seconds, *rest):
    _real(self, (3.0, limits_seconds[1]), *rest)
Patience.__init__ = late
"""
GIVEN_UP = """
from outlast.store.sqlite.write_gate import Patience
_real = Patience.__init__
def impatient(self, limits_seconds, *rest):
    _real(self, (limits_seconds[0], 0.1), *rest)
Patience.__init__ = impatient
"""
RUN_OUT_IS_LOST = """
from outlast.store.ops import settle
_real = settle.settle_grants
def settle_grants(tx, settlements, now):
    if now.mono_ms >= 1_060_000:
        return [None for _ in settlements]
    return _real(tx, settlements, now)
settle.settle_grants = settle_grants
"""


def _found(tmp_path: Path, case: str, planted: str) -> list[Finding]:
    assert running.run(Plan(tmp_path, case=case)).violations == [], "the case itself is fine"
    findings = running.run(Plan(tmp_path, case=case), planted)
    assert findings.cases == 1
    return findings.violations


@pytest.mark.parametrize(
    ("case", "planted", "word"),
    [
        (
            "renew after it was taken over by another, stopped before it asked, by claim",
            BLIND_RENEWALS,
            "was answered done",
        ),
        (
            "checkpoint after it was taken over by another, stopped before it asked, by claim",
            ANY_CHECKPOINT,
            "was answered done",
        ),
        (
            "complete after completed by another, stopped before it asked, by claim",
            STOPPED_IS_DEAD,
            "its lease stood",
        ),
        (
            "fail after its lease ran out and nobody took it, stopped before it asked, by claim",
            RUN_OUT_IS_LOST,
            "a lease that nobody took was answered refused",
        ),
        ("stopped inside the transaction of enqueue", NOBODY_IS_NAMED, "not told by whom"),
        ("stopped inside the transaction of enqueue", GIVEN_UP, "was answered ['refused'"),
        ("stopped inside the transaction of enqueue", NAMED_LATE, "it took"),
    ],
)
def test_a_planted_defect_is_found(tmp_path: Path, case: str, planted: str, word: str) -> None:
    found = _found(tmp_path, case, planted)
    assert found
    assert word in found[0].what
    assert found[0].case == case
