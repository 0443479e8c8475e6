"""Real processes, killed at random moments or short of memory: nothing acknowledged is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import InvalidInput
from outlast_lab.experiment import Plan
from outlast_lab.experiments.kill import case_named, run
from outlast_lab.experiments.kill.cases import Room
from outlast_lab.experiments.kill.commands import COMMANDS
from outlast_lab.experiments.kill.memory import ENGINE, PROCESS
from outlast_lab.experiments.kill.victims import VICTIMS
from outlast_lab.experiments.kill.workers import TARGETS
from tests.support.kill_room import (
    MOST_TRIES,
    a_room,
    assert_sound,
    assert_sound_until_killed,
    tried,
)

EVERY_SORT = (
    "killed at probes",
    "killed at random moments",
    "killed while they worked",
    "commands killed",
    "killed for their memory",
    "starved of memory",
)
ROUNDS = range(1, 5)
KILLS_OF_EACH_COMMAND = 2


@pytest.fixture(scope="module")
def room(shared_path: Path) -> Iterator[Room]:
    with a_room(shared_path) as made:
        yield made


@pytest.mark.proves("TST-09", "TST-39", "INT-28")
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_process_killed_at_a_random_moment_loses_nothing_that_was_acknowledged(
    room: Room, victim: str
) -> None:
    """Nor does it leave half of anything, and each task it was at work on pays for it once."""
    for number in ROUNDS:
        assert_sound(room, f"random {victim} {number}", VICTIMS[victim].lives)


@pytest.mark.proves("TST-09")
@pytest.mark.parametrize("number", range(1, 3))
@pytest.mark.parametrize("target", TARGETS)
def test_a_killed_worker_store_process_or_handler_loses_nothing_that_was_done(
    room: Room, target: str, number: int
) -> None:
    """A worker outlives its store process and handlers' processes, and they do not outlive it."""
    assert_sound(room, f"random {target} {number}")


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_killed_command_had_printed_is_so(room: Room, command: str) -> None:
    assert_sound_until_killed(room, f"random command {command}", KILLS_OF_EACH_COMMAND)


def test_some_commands_are_killed_between_what_they_print_and_their_end(room: Room) -> None:
    """Else nothing that is printed would ever be held against what is stored."""
    tries = (tried(room, f"random command task cancel {n}") for n in range(1, 1 + MOST_TRIES))
    assert any(one.kills and one.acknowledged for one in tries)


@pytest.mark.proves("TST-12")
@pytest.mark.parametrize("life", ["enqueue", "claim", "settle", "heal", "keep", "in groups"])
def test_sqlite_without_memory_is_answered_honestly(room: Room, life: str) -> None:
    """Refused or unknown, never acknowledged; with memory again everything can be finished."""
    refused = []
    for limit_kib in (550, 650, 800, 1000):
        judgement = tried(room, f"memory {ENGINE} {life}/{limit_kib} KiB")
        assert judgement.troubles[:3] == []
        refused.append(judgement.refused)
    assert any(refused), "the limits are too wide to be met"


@pytest.mark.proves("TST-12")
@pytest.mark.parametrize("life", ["enqueue", "claim", "settle", "migrate"])
def test_a_process_without_memory_loses_nothing_that_was_acknowledged(
    room: Room, life: str
) -> None:
    refused = []
    for limit_kib in (16, 200, 600):
        judgement = tried(room, f"memory {PROCESS} {life}/{limit_kib} KiB")
        assert judgement.troubles[:3] == []
        refused.append(judgement.refused)
    assert any(refused), "the limits are too wide to be met"


@pytest.mark.proves("TST-12")
@pytest.mark.parametrize("number", range(1, 4))
def test_a_process_killed_for_its_memory_loses_nothing_that_was_acknowledged(
    room: Room, number: int
) -> None:
    """By SIGKILL at the moment it has taken too much, as the kernel does it."""
    assert_sound(room, f"memory killed {number}")


def test_the_experiment_tries_cases_of_every_sort_and_counts_its_kills(tmp_path: Path) -> None:
    told: list[str] = []
    found = run(Plan(tmp_path, seed=3, cases=20, progress=told.append))
    assert (found.experiment, found.cases, found.violations) == ("kill", 20, [])
    assert int(found.figures["kills"]) >= 20
    assert found.figures["acknowledged before"]
    assert set(EVERY_SORT) <= set(found.figures)
    assert len(told) == 20 + int(found.figures.get("not met", 0))


def test_even_in_no_time_a_case_of_every_sort_is_played_and_told_of(tmp_path: Path) -> None:
    found = run(Plan(tmp_path, seed=3, seconds=0))
    assert found.violations == []
    assert [sort for sort in EVERY_SORT if not found.figures.get(sort)] == []
    assert found.figures["killed at random moments"] == len(VICTIMS)
    assert "played by limits" in found.notes[0]


def test_out_of_memory_is_not_noted_where_it_was_not_played(tmp_path: Path) -> None:
    assert run(Plan(tmp_path, seed=3, case="probe settle/settle.updated#3")).notes == []


def test_memory_that_suffices_is_no_case_and_alone_a_finding(tmp_path: Path) -> None:
    found = run(Plan(tmp_path, case="memory engine enqueue/900000 KiB"))
    assert found.cases == 0
    assert "the case was not met" in found.violations[0].what


def test_a_case_alone_is_repeated_by_its_text(tmp_path: Path) -> None:
    plan = Plan(tmp_path, seed=3, case="probe settle/settle.updated#3")
    found = run(plan)
    assert (found.cases, found.violations, found.figures["kills"]) == (1, [], 1)


def test_a_seed_and_a_text_draw_the_same_moment_each_time(room: Room) -> None:
    drawn = [room.chance("random flush 3").random() for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != room.chance("random flush 4").random()


@pytest.mark.parametrize(
    "text",
    [
        "probe nobody/settle.updated#1",
        "probe settle/nothing#1",
        "random thing 1",
        "random producer x",
        "random command task cancel",
        "memory bla",
        "memory engine nobody/700 KiB",
        "what",
    ],
)
def test_a_text_that_names_no_case_is_refused_with_examples(tmp_path: Path, text: str) -> None:
    for refuse in (lambda: case_named(text), lambda: run(Plan(tmp_path, case=text))):
        with pytest.raises(InvalidInput, match=r"there is no case .* one reads like"):
            refuse()


def test_a_probe_that_is_not_passed_so_often_is_told(room: Room) -> None:
    """A case that kills nobody must not pass for one that found nothing."""
    judgement = tried(room, "probe settle/settle.updated#999")
    assert (judgement.kills, len(judgement.troubles)) == (0, 1)
