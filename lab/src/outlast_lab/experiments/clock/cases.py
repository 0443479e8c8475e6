"""Every script in every pair of worlds that it makes sense in."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from outlast_lab.experiments.clock import scripts
from outlast_lab.experiments.clock.scripts import STANDS_AT, Script, Worlds
from outlast_lab.experiments.clock.worlds import HOUR_SECONDS, NIGHT_SECONDS, World, behind_seconds

_OTHER_BOOT_ID = "5af3d1c2-0c5e-4f0e-9a55-0e7c1a5f0b0c"

_THIRD_BOOT_ID = "77b0c8de-3a43-4f2b-8f0e-6a5d0d9e4c11"


def _container(boot_id: str) -> World:
    """Pids, mounts and clocks of its own, and what it is told of the boot is not the host's."""
    return World(
        monotonic_seconds=HOUR_SECONDS,
        boottime_seconds=HOUR_SECONDS,
        has_own_pids=True,
        other_boot_id=boot_id,
    )


MakeWorld = Callable[[], World]

# Those that stand as they are, so that all cases may share their processes' companies.
STEADY: dict[str, MakeWorld] = {
    "the host's clocks": World,
    "plus 1h": lambda: World(wall_seconds=HOUR_SECONDS),
    "minus 1h": lambda: World(wall_seconds=-HOUR_SECONDS),
    "a time namespace ahead": lambda: World(
        monotonic_seconds=HOUR_SECONDS, boottime_seconds=HOUR_SECONDS
    ),
    "a time namespace behind": lambda: World(monotonic_seconds=-behind_seconds()),
    "a time namespace that slept": lambda: World(boottime_seconds=NIGHT_SECONDS),
}
# Those in which something is changed on the way, or of which each has only one.
OWN: dict[str, MakeWorld] = {
    "a clock that is set": lambda: World(wall_seconds=1),
    "a clock that is set, in a time namespace ahead": lambda: World(
        wall_seconds=1, monotonic_seconds=HOUR_SECONDS
    ),
    "a clock that stands still": lambda: World(stands_at=STANDS_AT),
    "a clock that stands still, and the same pid": lambda: World(
        stands_at=STANDS_AT, has_own_pids=True
    ),
    "pids of its own": lambda: World(has_own_pids=True),
    "another boot id": lambda: World(other_boot_id=_OTHER_BOOT_ID),
    "a container": lambda: _container(_OTHER_BOOT_ID),
    "another container": lambda: _container(_THIRD_BOOT_ID),
}
_SET, _SET_AHEAD, _STILL, _SAME_PID, _PIDS, _BOOT, _CONTAINER, _NEIGHBOUR = OWN
_PLAIN = next(iter(STEADY))
_NAMESPACES = tuple(name for name in STEADY if "time namespace" in name)


@dataclass(frozen=True, slots=True)
class Case:
    """A script, and where its two sides live."""

    script: str
    holder: str
    rival: str

    def __str__(self) -> str:
        """By this it is repeated."""
        return f"{self.holder} against {self.rival}/{self.script}"

    @property
    def is_steady(self) -> bool:
        """Whether nothing is set on the way."""
        return self.holder in STEADY and self.rival in STEADY


SCRIPTS: dict[str, Script] = {
    "holder lives": scripts.holder_lives,
    "holder dies": scripts.holder_dies,
    "lock file is gone": scripts.lock_file_is_gone,
    "lease runs out": scripts.lease_runs_out,
    "steps in the middle": scripts.steps_in_the_middle,
    "renewed through steps": scripts.renewed_through_steps,
    "worker through steps": scripts.worker_through_steps,
    "restart in the same millisecond": scripts.restart_in_the_same_millisecond,
    "suspend": scripts.suspended,
    "delays": scripts.delays_follow_the_wall_clock,
    "silence without a lock file": scripts.silence_without_a_lock_file,
}


def _all() -> Iterator[Case]:
    for holder, rival in product(STEADY, STEADY):
        for script in ("holder lives", "holder dies", "lease runs out"):
            yield Case(script, holder, rival)
    for holder, rival in product((_SET, _SET_AHEAD), repeat=2):
        for script in ("steps in the middle", "renewed through steps", "suspend", "delays"):
            yield Case(script, holder, rival)
    for holder in (_SET, _SET_AHEAD, "a time namespace behind"):
        yield Case("worker through steps", holder, _PLAIN)
    for holder in (_STILL, _SAME_PID, _PIDS, _PLAIN):
        yield Case("restart in the same millisecond", holder, _PLAIN)
    for odd in (_PIDS, _BOOT):
        for holder, rival in ((odd, _PLAIN), (_PLAIN, odd)):
            for script in ("holder lives", "holder dies"):
                yield Case(script, holder, rival)


def _in_containers() -> Iterator[Case]:
    """Which share the store and its side folder, and nothing else."""
    pairs = ((_CONTAINER, _PLAIN), (_PLAIN, _CONTAINER), (_CONTAINER, _NEIGHBOUR))
    for holder, rival in pairs:
        for script in ("holder lives", "holder dies", "lease runs out"):
            yield Case(script, holder, rival)
        yield Case("silence without a lock file", holder, rival)
    yield Case("restart in the same millisecond", _CONTAINER, _NEIGHBOUR)


def _without_lock_files() -> Iterator[Case]:
    for holder, rival in product((_PLAIN, *_NAMESPACES), repeat=2):
        yield Case("lock file is gone", holder, rival)


CASES = (*_all(), *_without_lock_files(), *_in_containers())


def worlds_of(case: Case) -> Worlds:
    """New worlds for a case."""
    every = STEADY | OWN
    return Worlds(every[case.holder](), every[case.rival]())
