"""Processes that share the volume and nothing else: real namespaces, boot ids, pids, stops."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outlast_lab.acting import SharedClock
from outlast_lab.actors import Actor, Company
from outlast_lab.clock.worlds import World
from tests.store.hand import Hand
from tests.support.foreign import assert_sound

HOUR_SECONDS = 3600
BOOT_ID = "0b0e57a1-5a1d-4a7e-b007-1d0f0a11c0de"
PID = 4242

WORLDS = {
    "the host": World(),
    "a container": World(
        has_own_pids=True,
        other_boot_id=BOOT_ID,
        monotonic_seconds=HOUR_SECONDS,
        boottime_seconds=HOUR_SECONDS,
    ),
    "another pid namespace": World(has_own_pids=True),
    "another boot": World(other_boot_id=BOOT_ID),
}
CONTAINERS = [name for name in WORLDS if name != "the host"]


@pytest.fixture(scope="module")
def companies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Company]]:
    folder = tmp_path_factory.mktemp("worlds")
    made = {name: world.company(folder) for name, world in WORLDS.items()}
    yield made
    for company in made.values():
        company.close()


class Volume:
    """A store on a volume that all mount, and one clock that moves only when it is told."""

    def __init__(self, folder: Path, companies: dict[str, Company]) -> None:
        self.path = folder / "work.db"
        self._folder = folder
        self._companies = companies
        self.clock = SharedClock.make(folder / "clock")
        self.actors: list[Actor] = []

    def enters(self, world: str, worker: str, pid: int | None = None) -> Actor:
        """A process of a world opens the store."""
        actor = self._companies[world].actor(pid)
        self.actors.append(actor)
        record = str(self._folder / f"{len(self.actors)}.jsonl")
        clock = str(self._folder / "clock")
        opened = actor.ask("opens", str(self.path), worker, record, {}, clock)
        assert opened[0] == "done", opened
        return actor

    def loses_lock_files(self) -> None:
        """Somebody tidies up in the side folder."""
        found = [*Path(f"{self.path}-outlast").glob("workers/*")]
        assert found
        for path in found:
            path.unlink()

    def rows(self, query: str) -> list[Any]:
        with closing(Hand(self.path)) as hand:
            return hand.rows(query)


@pytest.fixture
def volume(tmp_path: Path, companies: dict[str, Company]) -> Iterator[Volume]:
    made = Volume(tmp_path, companies)
    yield made
    for actor in made.actors:
        actor.close()


def enqueues(actor: Actor, *task_ids: str) -> None:
    for task_id in task_ids:
        assert actor.ask("does", "enqueue", task_id)[0] == "done"


def claims(actor: Actor, lease: str = "10h", **options: Any) -> dict[str, int]:
    """The numbers of its leases by the ids of their tasks."""
    handed = actor.ask("hands", "claim", {"lease": lease, **options})
    return {task_id: number for number, task_id, *_ in handed}


def completes(actor: Actor, number: int) -> Any:
    """True, or the name of the error."""
    word, value = actor.ask("writes", "complete", number, "its result")
    return value if word == "done" else value.partition(":")[0]


def state_of(actor: Actor, worker: str) -> str:
    return str(actor.ask("sees", worker)["state"])


@pytest.mark.parametrize("world", CONTAINERS)
def test_these_worlds_are_what_they_are_said_to_be(volume: Volume, world: str) -> None:
    """Processes that only thought themselves elsewhere would prove nothing below."""
    inside, outside = volume.enters(world, "inside"), volume.enters("the host", "outside")
    for actor in (inside, outside):
        assert actor.ask("does", "heartbeat")[0] == "done"
    (there, here) = volume.rows("SELECT boot_id, pid_namespace FROM workers ORDER BY name")
    wanted = WORLDS[world]
    assert (there[0] == BOOT_ID) == (wanted.other_boot_id is not None) == (there[0] != here[0])
    assert (there[1] != here[1]) == wanted.has_own_pids


@pytest.mark.parametrize("world", CONTAINERS)
def test_a_silent_container_keeps_its_task_while_its_lock_is_held_and_loses_it_with_it(
    volume: Volume, world: str
) -> None:
    """Neither another boot id nor pids that mean nothing here overrule a lock that can be asked."""
    rival = volume.enters("the host", "rival")
    enqueues(rival, "t")
    holder = volume.enters(world, "holder")
    assert claims(holder) == {"t": 0}
    volume.clock.advance(HOUR_SECONDS)
    assert (claims(rival), state_of(rival, "holder")) == ({}, "stale")
    late = volume.enters("the host", "started later")
    assert claims(late) == {}
    holder.kill()
    assert "t" in claims(late)
    assert state_of(late, "holder") == "dead"


def test_the_host_is_judged_from_within_a_container_by_the_same_signs(volume: Volume) -> None:
    holder = volume.enters("the host", "holder")
    enqueues(holder, "t")
    assert claims(holder) == {"t": 0}
    inside = volume.enters("a container", "inside")
    volume.clock.advance(HOUR_SECONDS)
    assert claims(inside) == {}
    holder.kill()
    assert "t" in claims(inside)


@pytest.mark.parametrize("world", CONTAINERS)
def test_without_its_lock_file_a_container_is_judged_by_its_silence_alone(
    volume: Volume, world: str
) -> None:
    """It lives all along, so it must not be able to finish what was given to another."""
    rival = volume.enters("the host", "rival")
    enqueues(rival, "t")
    holder = volume.enters(world, "holder")
    number = claims(holder)["t"]
    volume.loses_lock_files()
    assert state_of(rival, "holder") == "alive"
    volume.clock.advance(100)
    assert (claims(rival), state_of(rival, "holder")) == ({}, "stale")
    volume.clock.advance(1.001)
    again = claims(rival)["t"]
    assert completes(holder, number) == "LeaseLost"
    assert completes(rival, again) is True
    assert holder.ask("does", "heartbeat")[0] == "done"
    states = "SELECT name, state FROM workers WHERE name = 'holder' ORDER BY seq"
    assert volume.rows(states) == [("holder", "dead"), ("holder", "alive")]
    assert_sound(volume.path)


def test_without_its_lock_file_a_process_here_is_known_by_pid_and_start(volume: Volume) -> None:
    rival = volume.enters("the host", "rival")
    enqueues(rival, "t")
    holder = volume.enters("the host", "holder")
    assert claims(holder) == {"t": 0}
    volume.loses_lock_files()
    volume.clock.advance(HOUR_SECONDS)
    assert (claims(rival), state_of(rival, "holder")) == ({}, "stale")
    holder.kill()
    assert "t" in claims(rival)


def test_a_pid_that_came_again_is_not_taken_for_the_one_that_had_it(volume: Volume) -> None:
    rival = volume.enters("another pid namespace", "rival")
    enqueues(rival, "t")
    holder = volume.enters("another pid namespace", "holder", PID)
    assert claims(holder) == {"t": 0}
    volume.loses_lock_files()
    holder.kill()
    _await_the_next_tick()
    stranger = volume.enters("another pid namespace", "stranger", PID)
    assert stranger.own_pid == holder.own_pid == PID
    enqueues(stranger, "other")
    assert "t" in claims(rival)


def _await_the_next_tick() -> None:
    """Processes that begin within one tick of the kernel have one start time."""
    until = time.monotonic() + 3 / os.sysconf("SC_CLK_TCK")
    while time.monotonic() < until:
        os.sched_yield()


def test_a_reboot_frees_at_once_what_was_held_before_it(volume: Volume) -> None:
    """After it boot id and pids are others, the lock files are there and nobody holds them."""
    before = volume.enters("another boot", "before")
    enqueues(before, "t")
    assert claims(before) == {"t": 0}
    before.kill()
    after = volume.enters("the host", "after")
    assert after.ask("looks", "t")["status"] == "pending"
    assert "t" in claims(after)


def test_a_stopped_process_is_stale_until_its_lease_ends_and_then_fenced_off(
    volume: Volume,
) -> None:
    rival = volume.enters("the host", "rival")
    enqueues(rival, "t")
    holder = volume.enters("the host", "holder")
    number = claims(holder, lease="1h")["t"]
    holder.stop()
    volume.clock.advance(HOUR_SECONDS - 0.001)
    assert (claims(rival), state_of(rival, "holder")) == ({}, "stale")
    volume.clock.advance(0.001)
    again = claims(rival)["t"]
    holder.resume()
    assert completes(holder, number) == "LeaseLost"
    assert completes(rival, again) is True
    assert state_of(rival, "holder") == "stale", "it has lost its task and not its life"


@pytest.mark.proves("HB-18")
@pytest.mark.parametrize("world", ["the host", "a container"])
def test_a_restart_in_the_same_millisecond_is_somebody_else_and_a_live_twin_keeps_its_tasks(
    volume: Volume, world: str
) -> None:
    """One name, one moment, the same pid where that can be had: only incarnations differ."""
    pid = PID if world == "a container" else None
    twin = volume.enters("the host", "w")
    enqueues(twin, "twin's", "old")
    kept = claims(twin)["twin's"]
    first = volume.enters(world, "w", pid)
    assert claims(first) == {"old": 0}
    first.kill()
    second = volume.enters(world, "w", pid)
    assert pid in (None, second.own_pid)
    assert second.ask("looks", "old")["status"] == "pending"
    enqueues(second, "new")
    mine = claims(second, limit=5)
    assert mine.keys() == {"old", "new"}
    assert second.ask("looks", "old")["attempt"] == 2
    for actor in (twin, second):
        assert actor.ask("does", "heal")[0] == "done"
        assert claims(actor) == {}
    assert completes(twin, kept) is True
    assert [completes(second, number) for number in mine.values()] == [True, True]
    third = volume.enters("the host", "w")
    enqueues(third, "third's")
    assert claims(third) == {"third's": 0}
    third.kill()
    last = claims(second)
    assert last.keys() == {"third's"}, "a namesake that died while this one was at work"
    assert completes(second, last["third's"]) is True
    assert volume.rows("SELECT DISTINCT name, registered_at FROM workers") == [
        ("w", 1_800_000_000_000)
    ]
    assert_sound(volume.path)
