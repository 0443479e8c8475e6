"""Every invariant can fail: a sound history and store are spoiled in one place, and it is told."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from outlast_lab.history import Call, History, history_of, read_history, read_lines
from outlast_lab.invariants import violations
from outlast_lab.recovery_lives import ALL_LIVES
from outlast_lab.stored import Stored, StoredKey, foreign_stored
from tests.support.children import Child

Spoil = Callable[[History, Stored], None]


def _lives(life: str, path: str, record: str) -> None:
    from pathlib import Path

    from outlast_lab.history import LineFile
    from outlast_lab.recovery_lives import ALL_LIVES
    from tests.support.childside import die

    ALL_LIVES[life].live(Path(path), LineFile(record).write)
    die()


def _lives_before(life: str, path: str, record: str) -> None:
    from pathlib import Path

    from outlast_lab.history import LineFile
    from outlast_lab.recovery_lives import ALL_LIVES
    from tests.support.childside import die

    ALL_LIVES[life].before(Path(path), LineFile(record).write)
    die()


def played(life: str, folder: Path) -> tuple[History, Stored]:
    """A life that nobody disturbed, and the store it left."""
    database, record = folder / "work.db", folder / "record.jsonl"
    for part in (_lives_before, _lives):
        with Child(part, life, database, record) as child:
            child.wait()
    return read_history(folder), foreign_stored(database, with_content=True)


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, Stored]:
    return played("settle", tmp_path_factory.mktemp("settle"))


@pytest.fixture(scope="module")
def healed(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, Stored]:
    return played("heal", tmp_path_factory.mktemp("heal"))


@pytest.mark.parametrize("life", ALL_LIVES)
def test_a_life_that_nobody_disturbs_breaks_no_promise(life: str, tmp_path: Path) -> None:
    history, stored = played(life, tmp_path)
    assert history.calls
    assert stored.tasks
    assert stored.content["tasks"]
    assert violations(history, stored) == []


def call_of(history: History, verb: str) -> Call:
    return next(call for call in history.calls if call.verb == verb and call.is_done)


def lose_a_task(history: History, stored: Stored) -> None:
    del stored.tasks["t-2"], stored.moves["t-2"]


def swap_a_payload(history: History, stored: Stored) -> None:
    call_of(history, "enqueue_many").arguments["payloads"][3] = "another"


def swap_a_result(history: History, stored: Stored) -> None:
    call_of(history, "complete").arguments["result"] = "another"


def forget_a_result(history: History, stored: Stored) -> None:
    stored.tasks["t-1"] = stored.tasks["t-1"]._replace(result=None)


def damage_a_payload(history: History, stored: Stored) -> None:
    stored.tasks["t-1"] = stored.tasks["t-1"]._replace(payload='"flipped"')


def undo_a_cancelling(history: History, stored: Stored) -> None:
    stored.tasks["t-8"] = stored.tasks["t-8"]._replace(status="pending")
    del stored.moves["t-8"]


def invent_a_task(history: History, stored: Stored) -> None:
    stored.tasks["ghost"] = stored.tasks["t-1"]._replace(id="ghost")


def refuse_what_is_there(history: History, stored: Stored) -> None:
    call_of(history, "enqueue").outcome = "refused"


def clone_unasked(history: History, stored: Stored) -> None:
    call_of(history, "retry").outcome = "refused"


def forget_a_claim(history: History, stored: Stored) -> None:
    stored.moves["t-5"] = []
    stored.tasks["t-5"] = stored.tasks["t-5"]._replace(token=0)


def half_settle(history: History, stored: Stored) -> None:
    stored.moves["t-1"].pop()


def settle_twice(history: History, stored: Stored) -> None:
    stored.moves["t-1"].append(stored.moves["t-1"][-1])


def acknowledge_twice(history: History, stored: Stored) -> None:
    history.calls.append(deepcopy(call_of(history, "complete")))


def hand_out_twice(history: History, stored: Stored) -> None:
    history.calls.append(deepcopy(call_of(history, "claim")))


def reuse_a_token(history: History, stored: Stored) -> None:
    moves = stored.moves["t-4"]
    stored.moves["t-4"] = [*moves, moves[0], *moves[1:]]


def refund_silently(history: History, stored: Stored) -> None:
    stored.tasks["t-1"] = stored.tasks["t-1"]._replace(attempt=0)


def spend_too_much(history: History, stored: Stored) -> None:
    stored.tasks["t-2"] = stored.tasks["t-2"]._replace(retry_count=9)


def hold_what_is_final(history: History, stored: Stored) -> None:
    stored.tasks["t-1"] = stored.tasks["t-1"]._replace(holder=1)


def leave_a_key_open(history: History, stored: Stored) -> None:
    stored.keys["k"] = StoredKey("k", "keyed", "pending", 86_400_000)


def orphan_a_move(history: History, stored: Stored) -> None:
    stored.moves["no task 99"].append(stored.moves["t-1"][0])


def damage_a_page(history: History, stored: Stored) -> None:
    stored.faults["no page is damaged"] = [["row 3 missing from index"]]


def surprise(history: History, stored: Stored) -> None:
    history.calls[0].outcome = "raised"


def settle_behind_the_workers_back(history: History, stored: Stored) -> None:
    history.calls.remove(call_of(history, "complete"))


def let_a_zombie_write(history: History, stored: Stored) -> None:
    zombie, later = call_of(history, "release"), deepcopy(call_of(history, "claim"))
    later.worker, later.asked_at, later.answered_at = "b", zombie.asked_at, zombie.asked_at - 0.001
    later.value = [["t-4", zombie.arguments["token"] + 1, 2, 1000]]
    history.calls.append(later)


def misjudge_an_unknown_outcome(history: History, stored: Stored) -> None:
    said = Call("a", "resolve", {"ids": ["t-1"]}, 9e9, 0, 9e9, 0, "done", None)
    history.calls.append(said)


SETTLED: dict[Spoil, str] = {
    lose_a_task: "lost",
    swap_a_payload: "lost",
    swap_a_result: "lost",
    forget_a_result: "torn",
    damage_a_payload: "torn",
    undo_a_cancelling: "lost",
    invent_a_task: "phantom",
    refuse_what_is_there: "phantom",
    clone_unasked: "phantom",
    forget_a_claim: "lost",
    half_settle: "path",
    settle_twice: "twice",
    acknowledge_twice: "twice",
    hand_out_twice: "twice",
    reuse_a_token: "tokens",
    refund_silently: "path",
    spend_too_much: "counters",
    hold_what_is_final: "torn",
    leave_a_key_open: "torn",
    orphan_a_move: "torn",
    damage_a_page: "damage",
    surprise: "surprise",
    settle_behind_the_workers_back: "path",
    let_a_zombie_write: "zombie",
    misjudge_an_unknown_outcome: "lost",
}


@pytest.mark.parametrize("spoil", SETTLED, ids=lambda spoil: spoil.__name__)
def test_what_is_broken_is_told(settled: tuple[History, Stored], spoil: Spoil) -> None:
    history, stored = deepcopy(settled)
    assert violations(history, stored) == []
    spoil(history, stored)
    assert SETTLED[spoil] in {one.kind for one in violations(history, stored)}


def test_a_living_holder_that_is_declared_dead_is_told(healed: tuple[History, Stored]) -> None:
    history, stored = deepcopy(healed)
    history.killed_at.clear()
    assert {one.kind for one in violations(history, stored)} == {"overlap"}


def test_a_lease_that_is_taken_before_it_ran_out_is_told(healed: tuple[History, Stored]) -> None:
    """The expired ones of `slow` are claimed once more, a moment too early by the queue's clock."""
    history, stored = deepcopy(healed)
    held = next(call for call in history.of("claim") if call.worker == "slow")
    for is_early in (False, True):
        later = deepcopy(held)
        later.worker = "b"
        later.asked_clock_ms = held.asked_clock_ms + 10_000 - 500 * is_early
        later.answered_clock_ms = later.asked_clock_ms
        later.asked_at = later.answered_at = held.asked_at + 1000
        spoiled = deepcopy(stored)
        task_id, token, _, _ = held.value[0]
        later.value = [[task_id, token + 1, 2, 10_000]]
        moves = spoiled.moves[task_id]
        moves.append(moves[-2]._replace(token=token + 1, attempt=2, worker="b"))
        found = violations(History([*history.calls, later], history.killed_at, {}), spoiled)
        assert any(one.kind == "overlap" for one in found) == is_early


def test_a_call_that_was_not_answered_may_have_happened_or_not(
    settled: tuple[History, Stored],
) -> None:
    history, stored = deepcopy(settled)
    call_of(history, "enqueue").outcome = None
    assert violations(history, stored) == []
    del stored.tasks["keyed"], stored.moves["keyed"], stored.keys["k"]
    history.calls = [
        call for call in history.calls if call.verb in ("enqueue", "enqueue_many", "retry")
    ]
    assert "lost" not in {one.kind for one in violations(history, stored)}


def test_a_bulk_that_was_not_answered_is_there_as_a_whole_or_not_at_all(
    settled: tuple[History, Stored],
) -> None:
    history, stored = deepcopy(settled)
    call_of(history, "enqueue_many").outcome = None
    assert violations(history, stored) == []
    lose_a_task(history, stored)
    assert "torn" in {one.kind for one in violations(history, stored)}


def test_a_line_that_a_kill_cut_off_says_nothing(tmp_path: Path) -> None:
    asks = ["asks", "1.1", "a", "enqueue", {"ids": ["t"], "payloads": [None]}, 1.0, 1000]
    done = json.dumps(["answered", "1.1", "a", "done", ["t"], 1.1, 1001])
    (tmp_path / "a.jsonl").write_text(json.dumps(asks) + "\n" + done[:-3], encoding="utf-8")
    history = history_of(read_lines(tmp_path / "a.jsonl"))
    assert [call.verb for call in history.under_way()] == ["enqueue"]


def test_a_history_of_other_words_is_refused() -> None:
    with pytest.raises(ValueError, match="no lines that begin with 'tells'"):
        history_of([["tells", 1]])
