"""What is played between a holder and a rival whose clocks disagree."""

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from outlast_lab.experiment import Broken
from outlast_lab.experiments.clock.scene import (
    LOOK_SECONDS,
    SOON_SECONDS,
    Scene,
    claims,
    completes,
    done,
    gets_at_once,
    gets_nothing,
    seen_alive,
)
from outlast_lab.experiments.clock.worlds import HOUR_SECONDS, NIGHT_SECONDS, Missing, World
from outlast_lab.stage.actors import stopped
from outlast_lab.stage.handlers import await_sign, leave_sign

SHORT_LEASE_SECONDS = 0.5
RENEWED_LEASE_SECONDS = 2.0
WORKER_LEASE_SECONDS = 5.0
_TICK_SECONDS = 0.002
# With these a worker that cannot be asked is dead after so much silence.
QUICK_BEATS: dict[str, Any] = {
    "heartbeat_interval_seconds": 0.5,
    "heartbeat_stale_seconds": 1.5,
    "heartbeat_grace_seconds": 0.5,
    "heartbeat_timeout_seconds": 0.2,
}
SILENCE_SECONDS = 2.0
# 2026-03-01 12:00 UTC.
STANDS_AT = 1_772_366_400
PID_THAT_COMES_AGAIN = 4242


class Worlds(NamedTuple):
    """Where the holder lives, and where the rival does."""

    holder: World
    rival: World


Script = Callable[[Scene, Worlds], None]


def holder_lives(scene: Scene, worlds: Worlds) -> None:
    """Nobody gets its task, and it can complete it."""
    holder, rival = scene.enters("holder", worlds.holder), scene.enters("rival", worlds.rival)
    done(holder.ask("does", "enqueue", "t"), "enqueue")
    number = claims(holder, "t")
    gets_nothing(rival, "t")
    seen_alive(rival, "holder")
    late = scene.enters("latecomer", worlds.rival)
    gets_nothing(late, "t")
    done(holder.ask("writes", "renew", number), "renew")
    gets_nothing(rival, "t")
    completes(holder, number)


def holder_dies(scene: Scene, worlds: Worlds) -> None:
    """The first that asks gets its task."""
    holder, rival = scene.enters("holder", worlds.holder), scene.enters("rival", worlds.rival)
    done(holder.ask("does", "enqueue", "t"), "enqueue")
    claims(holder, "t")
    gets_nothing(rival, "t")
    scene.kills("holder")
    completes(rival, gets_at_once(rival, "t"))


def lock_file_is_gone(scene: Scene, worlds: Worlds) -> None:
    """Then a holder is known by its pid and start time, which each time namespace shows shifted."""
    holder = scene.enters("holder", worlds.holder)
    done(holder.ask("does", "enqueue", "t"), "enqueue")
    number = claims(holder, "t")
    scene.loses_lock_files()
    rival = scene.enters("rival", worlds.rival)
    gets_nothing(rival, "t")
    seen_alive(rival, "holder")
    completes(holder, number)
    done(holder.ask("does", "enqueue", "next"), "enqueue")
    claims(holder, "next")
    gets_nothing(rival, "next")
    scene.kills("holder")
    completes(rival, gets_at_once(rival, "next"))


def silence_without_a_lock_file(scene: Scene, worlds: Worlds) -> None:
    """Where neither lock nor pid can be asked, beats decide: who is silent for long is dead.

    What it then writes is refused, for it may only have been slow.
    """
    holder = scene.enters("holder", worlds.holder, **QUICK_BEATS)
    done(holder.ask("does", "enqueue", "t"), "enqueue")
    number = claims(holder, "t")
    scene.loses_lock_files()
    rival = scene.enters("rival", worlds.rival, **QUICK_BEATS)
    heard_until = time.monotonic() + 2 * SILENCE_SECONDS
    beat_at = time.monotonic()
    while time.monotonic() < heard_until:
        # The beat tells of a moment after this one, however long it takes to be stored.
        beaten_at, beat_at = beat_at, time.monotonic()
        done(holder.ask("does", "heartbeat"), "heartbeat")
        if time.monotonic() - beaten_at > SILENCE_SECONDS - _TICK_SECONDS:
            # This machine was too slow to beat in time, and then the rival would be right.
            return
        gets_nothing(rival, "t")
        time.sleep(LOOK_SECONDS)
    scene.falls_silent("holder")
    until = time.monotonic() + SILENCE_SECONDS + SOON_SECONDS
    while not (leases := rival.ask("hands", "claim", {"lease": "5m"})):
        if time.monotonic() > until:
            raise Broken("who was silent for so long is not taken for dead")
        time.sleep(LOOK_SECONDS)
    if time.monotonic() - beat_at < SILENCE_SECONDS - _TICK_SECONDS:
        raise Broken("a worker was declared dead before it was silent for long")
    said = holder.ask("writes", "complete", number, "too late")
    if said[0] != "refused" or not said[1].startswith("LeaseLost"):
        raise Broken(f"whoever was declared dead completed its task: {said}")
    # It begins anew, as somebody else: the invariants see to it that the dead row stays dead.
    done(holder.ask("does", "heartbeat"), "heartbeat")
    completes(rival, int(leases[0][0]))


def lease_runs_out(scene: Scene, worlds: Worlds) -> None:
    """A silent holder keeps its task for the length of its lease, and not much longer.

    That is for the rival to see: the holder's own detector, which goes by the clock that the lease
    was made by, would put it back for both.
    """
    holder = scene.enters("holder", worlds.holder, detection_interval_seconds=0)
    rival = scene.enters("rival", worlds.rival)
    done(holder.ask("does", "enqueue", "t"), "enqueue")
    asked_at = time.monotonic()
    number = claims(holder, "t", SHORT_LEASE_SECONDS)
    answered_at = time.monotonic()
    until = answered_at + SHORT_LEASE_SECONDS + SOON_SECONDS
    while not (leases := rival.ask("hands", "claim", {"lease": "5m"})):
        if time.monotonic() > until:
            raise Broken("the lease ran out long ago and nobody gets the task")
        time.sleep(LOOK_SECONDS)
    if time.monotonic() < asked_at + SHORT_LEASE_SECONDS - _TICK_SECONDS:
        raise Broken("a live lease was taken before it had run out")
    said = holder.ask("writes", "complete", number, "too late")
    if said[0] != "refused" or not said[1].startswith("LeaseLost"):
        raise Broken(f"whoever was silent past its lease completed its task: {said}")
    completes(rival, int(leases[0][0]))


def steps_in_the_middle(scene: Scene, worlds: Worlds) -> None:
    """Both wall clocks jump to and fro while a lease stands; nobody minds."""
    holder, rival = scene.enters("holder", worlds.holder), scene.enters("rival", worlds.rival)
    done(holder.ask("does", "enqueue", "t"), "enqueue")
    number = claims(holder, "t")
    for hours in (1, -1, 24 * 365, -24):
        worlds.holder.step_wall(hours * HOUR_SECONDS)
        gets_nothing(rival, "t")
        worlds.rival.step_wall(-hours * HOUR_SECONDS)
        gets_nothing(rival, "t")
        seen_alive(rival, "holder")
        done(holder.ask("writes", "renew", number), "renew")
        gets_nothing(rival, "t")
    completes(holder, number)


def renewed_through_steps(scene: Scene, worlds: Worlds) -> None:
    """A short lease that is renewed in time stands, however the wall clocks jump meanwhile."""
    holder, rival = scene.enters("holder", worlds.holder), scene.enters("rival", worlds.rival)
    done(holder.ask("does", "enqueue", "t"), "enqueue")
    stands_until = time.monotonic() + RENEWED_LEASE_SECONDS
    number = claims(holder, "t", RENEWED_LEASE_SECONDS)
    ends_at = time.monotonic() + 1.3 * RENEWED_LEASE_SECONDS
    hours = 1
    while time.monotonic() < ends_at:
        worlds.holder.step_wall(hours * HOUR_SECONDS)
        worlds.rival.step_wall(-hours * HOUR_SECONDS)
        hours = -hours
        asked_at = time.monotonic()
        if holder.ask("writes", "renew", number)[0] == "done":
            stands_until = asked_at + RENEWED_LEASE_SECONDS
        leases = rival.ask("hands", "claim", {"lease": "5m"})
        if leases and time.monotonic() < stands_until - _TICK_SECONDS:
            raise Broken(f"a lease that was renewed in time was taken: {leases}")
        if leases:
            # This machine was too slow to renew in time, and then the rival was right.
            return
    completes(holder, number)


def worker_through_steps(scene: Scene, worlds: Worlds) -> None:
    """A real worker and its store process keep a task past several leases while the clock jumps."""
    rival = scene.enters("rival", worlds.rival)
    signs = scene.folder / "signs"
    signs.mkdir()
    done(rival.ask("does", "enqueue", "t", {"signs": str(signs)}, "hold"), "enqueue")
    worker = scene.companies(worlds.holder).actor()
    scene.actors["worker"] = worker
    settings = {"lease_seconds": WORKER_LEASE_SECONDS}
    worker.tell("works", str(scene.path), "worker", settings, {"concurrency": 1})
    await_sign(signs, "begun t 1", SOON_SECONDS * 6, worker.has_answered)
    ends_at = time.monotonic() + 1.2 * WORKER_LEASE_SECONDS
    hours = 1
    while time.monotonic() < ends_at:
        if worlds.holder.has_own_wall_clock:
            worlds.holder.step_wall(hours * HOUR_SECONDS)
        hours = -hours
        gets_nothing(rival, "t")
        seen_alive(rival, "worker")
        time.sleep(LOOK_SECONDS)
    leave_sign(signs, "go t 1")
    said = json.loads(await_sign(signs, "wrote t 1", SOON_SECONDS * 6, worker.has_answered))
    if set(said.values()) != {"accepted"}:
        raise Broken(f"the writes of a worker that lived all along: {said}")


def restart_in_the_same_millisecond(scene: Scene, worlds: Worlds) -> None:
    """Under the same name, with the same pid where that can be had, it is somebody else at once.

    That is for the second one to see: the rival's detector would have taken the task back before.
    """
    rival = scene.enters("rival", worlds.rival, detection_interval_seconds=0)
    for task_id in ("old", "kept"):
        done(rival.ask("does", "enqueue", task_id, queue=task_id), "enqueue")
    pid = PID_THAT_COMES_AGAIN if worlds.holder.has_own_pids else None
    first = scene.enters("w", worlds.holder, pid)
    claims(first, "old", queue="old")
    scene.kills("w")
    second = scene.enters("w", worlds.holder, pid)
    if pid is not None and second.own_pid != first.own_pid:
        raise Missing(f"a restart with the same pid: {first.own_pid} did not come again")
    kept = claims(second, "kept", queue="kept")
    again = claims(second, "old", queue="old")
    gets_nothing(rival, "kept")
    gets_nothing(second, "kept")
    gets_nothing(rival, "old")
    if second.ask("looks", "old")["attempt"] != 2:
        raise Broken("a task of the process that died was not begun anew")
    completes(second, kept)
    completes(second, again)


def suspended(scene: Scene, worlds: Worlds) -> None:
    """The wall clocks go on while all stand still, the monotonic one does not: nobody expires."""
    holder, rival = scene.enters("holder", worlds.holder), scene.enters("rival", worlds.rival)
    done(holder.ask("does", "enqueue", "t"), "enqueue")
    number = claims(holder, "t")
    with stopped(holder.pid, rival.pid):
        worlds.holder.step_wall(NIGHT_SECONDS)
        worlds.rival.step_wall(NIGHT_SECONDS)
    gets_nothing(rival, "t")
    seen_alive(rival, "holder")
    gets_nothing(scene.enters("started after the night", worlds.rival), "t")
    done(holder.ask("writes", "renew", number), "renew")
    completes(holder, number)
    done(holder.ask("does", "enqueue", "next"), "enqueue")
    claims(holder, "next")
    scene.kills("holder")
    completes(rival, gets_at_once(rival, "next"))


def delays_follow_the_wall_clock(scene: Scene, worlds: Worlds) -> None:
    """What waits for a time of day comes when the clock shows it, neither before nor never."""
    producer, rival = scene.enters("producer", worlds.holder), scene.enters("rival", worlds.rival)
    worlds.holder.step_wall(1)
    worlds.rival.step_wall(1)
    done(producer.ask("does", "enqueue", "later", delay="30m"), "enqueue")
    gets_nothing(rival, "later")
    worlds.rival.step_wall(-HOUR_SECONDS)
    gets_nothing(rival, "later")
    worlds.rival.step_wall(HOUR_SECONDS)
    number = claims(rival, "later")
    said = rival.ask("writes", "release", number, delay="30m")
    done(said, "release")
    gets_nothing(rival, "later")
    worlds.rival.step_wall(1)
    gets_nothing(rival, "later")
    done(producer.ask("does", "unpark_task", "later"), "unpark")
    completes(rival, claims(rival, "later"))
