"""The supervisor of a round of chaos: starts processes, strikes them as planned, ends them."""

import random
import signal
import time
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

from outlast_lab.experiments.chaos.members import (
    NO_ENVIRONMENT,
    PATIENCE_SECONDS,
    TICK_SECONDS,
    Member,
)
from outlast_lab.experiments.chaos.programs import NIGHT_SECONDS, Deed, Round
from outlast_lab.experiments.chaos.targets import Target, await_stop, keep_others_out, let_go, send
from outlast_lab.experiments.clock.wall_clock import WallClock
from outlast_lab.record.history import KILLED, LineFile, host_seconds

LATE_SECONDS = 0.5
NEXT_SECONDS = 0.05
NEW_STORE_PROCESS_SECONDS = 1.0
# A machine that takes longer than this until the whole crowd is at work has much else to do: all
# times of the round are stretched, so that as much happens in it.
START_SECONDS = 1.5
MOST_STRETCHED = 4.0


class Span(NamedTuple):
    """A time in which somebody stood still."""

    name: str
    since: float
    until: float
    is_its_work: bool = True
    """Whether the process itself or its store process did, and not only another one below it."""
    keeps_others_out: bool = False
    """Whether one of those that did had a lock without which nobody can write."""


@dataclass
class Account:
    """What was done to the crowd, and what was noticed on the way."""

    started: int = 0
    kills: int = 0
    leaves: int = 0
    crashes: int = 0
    suspends: int = 0
    stops: list[Span] = field(default_factory=list)
    without_store_process: list[Span] = field(default_factory=list)
    """Times in which somebody's store process had been killed and the next one had yet to begin."""
    seconds: float = 0.0
    late: list[Span] = field(default_factory=list)
    """Times in which the supervisor itself got no turn: the machine had too much to do."""
    troubles: list[str] = field(default_factory=list)


class _Later(NamedTuple):
    at: float
    number: int
    place: int
    continued: list[Target]
    """The processes that go on; when there are none, the place is taken anew."""


class Supervisor:
    """Keeps every place taken, except for the moments that the plan leaves it empty."""

    def __init__(
        self, chaos: Round, path: Path, folder: Path, seed: str, clock: WallClock | None = None
    ) -> None:
        """`clock` is the wall clock of its processes, if that is not the host's."""
        self.account = Account()
        self._chaos = chaos
        self._path = path
        self._folder = folder
        self._seed = seed
        self._clock = clock
        self._dice = random.Random(f"supervisor {seed}")
        self._record = LineFile(folder / "supervisor.jsonl")
        self._members: dict[int, Member] = {}
        self._gone: list[Member] = []
        self._lives = [0] * len(chaos.programs)
        self._later: list[_Later] = []
        self._asked = 0

    def run(self) -> Account:
        """The whole round, to the last process's end."""
        try:
            for place in range(len(self._chaos.programs)):
                self._start(place)
            self._strike(self._stretched())
            self._dismiss()
        finally:
            everybody = [*self._gone, *self._members.values()]
            try:
                # All of them at once, so that an interrupted laboratory does not wait for each.
                for member in everybody:
                    member.end_all()
                for member in everybody:
                    trouble = member.clear_away()
                    if trouble:
                        self.account.troubles.append(trouble)
            finally:
                for later in self._later:
                    let_go(later.continued)
                self._record.close()
        return self.account

    def _start(self, place: int) -> None:
        life = self._lives[place]
        self._lives[place] += 1
        program = self._chaos.again(place, life)
        environment = NO_ENVIRONMENT if self._clock is None else self._clock.environment
        self._members[place] = Member(program, self._path, self._folder, self._seed, environment)
        self.account.started += 1

    def _stretched(self) -> float:
        """Wait until everybody is at work; how much slower than usual this machine is."""
        began = time.monotonic()
        limit = START_SECONDS * MOST_STRETCHED
        while (took := time.monotonic() - began) < limit:
            if all(member.is_at_work() or not member.lives() for member in self._members.values()):
                break
            time.sleep(TICK_SECONDS)
        return max(1.0, took / START_SECONDS)

    def _strike(self, stretched: float) -> None:
        """Deeds and their consequences, each at its time."""
        began = time.monotonic()
        deeds = [
            deed._replace(at_seconds=deed.at_seconds * stretched) for deed in self._chaos.deeds
        ]
        seen_at = host_seconds()
        self.account.seconds = self._chaos.seconds * stretched
        while (now := time.monotonic()) < began + self.account.seconds:
            if host_seconds() - seen_at > LATE_SECONDS:
                self.account.late.append(Span("supervisor", seen_at, host_seconds()))
            seen_at = host_seconds()
            while deeds and began + deeds[0].at_seconds <= now:
                self._do(deeds.pop(0))
            while self._later and self._later[0].at <= now:
                self._do_later(heappop(self._later))
            self._look_after()
            time.sleep(TICK_SECONDS)

    def _do(self, deed: Deed) -> None:
        if deed.what == "crash":
            self._crash(deed)
        elif deed.what == "suspend":
            self._suspend(deed)
        else:
            self._do_to_one(deed)

    def _do_to_one(self, deed: Deed) -> None:
        member = self._members.get(deed.place)
        if member is None or not member.lives():
            return
        if deed.what == "leave":
            self.account.leaves += 1
            send(signal.SIGTERM, [member.itself])
            return
        below = member.below()
        aimed_at = self._aimed_at(member, below, deed)
        if deed.what == "stop":
            self._stop(member, aimed_at, deed)
        elif member.itself in aimed_at:
            self._kill(deed.place, aimed_at)
            self._after(deed.seconds, deed.place, [])
        else:
            self.account.kills += 1
            if any(one.is_store_process for one in aimed_at):
                now = host_seconds()
                self.account.without_store_process.append(
                    Span(member.name, now, now + NEW_STORE_PROCESS_SECONDS)
                )
            send(signal.SIGKILL, aimed_at)
        let_go([one for one in below if deed.what == "kill" or one not in aimed_at])

    def _crash(self, deed: Deed) -> None:
        """Everybody is killed at once; then all places are taken anew together."""
        families = {
            place: [member.itself, *member.below()] for place, member in self._members.items()
        }
        self.account.crashes += 1
        for place, family in families.items():
            self._kill(place, family)
            let_go(family)
            self._after(deed.seconds, place, [])

    def _suspend(self, deed: Deed) -> None:
        """Everybody stands still; when they go on it is hours later by the clock on the wall."""
        if self._clock is None:
            return
        members = list(self._members.values())
        everybody = [one for member in members for one in (member.itself, *member.below())]
        since = host_seconds()
        send(signal.SIGSTOP, everybody)
        await_stop(everybody)
        self._clock.jump(NIGHT_SECONDS)
        time.sleep(deed.seconds)
        send(signal.SIGCONT, everybody)
        let_go(everybody)
        self.account.suspends += 1
        until = host_seconds()
        for member in members:
            self.account.stops.append(Span(member.name, since, until, keeps_others_out=True))

    def _aimed_at(self, member: Member, below: list[Target], deed: Deed) -> list[Target]:
        if deed.aim == "family":
            return [member.itself, *below]
        if deed.aim == "one below" and below:
            return [self._dice.choice(below)]
        return [member.itself]

    def _stop(self, member: Member, aimed_at: list[Target], deed: Deed) -> None:
        """Also finds out whether others can write as long as these stand still."""
        since = host_seconds()
        send(signal.SIGSTOP, aimed_at)
        self._after(deed.seconds, deed.place, aimed_at)
        await_stop(aimed_at)
        is_its_work = any(one == member.itself or one.is_store_process for one in aimed_at)
        keeps_out = keep_others_out(self._path, aimed_at)
        span = Span(member.name, since, since + deed.seconds, is_its_work, keeps_out)
        self.account.stops.append(span)

    def _kill(self, place: int, aimed_at: list[Target]) -> None:
        """The moment is noted first: nothing that it held came free before."""
        member = self._members.pop(place)
        for worker in member.program.workers():
            self._record.write([KILLED, worker, host_seconds()])
        member.is_killed = True
        self.account.kills += 1
        send(signal.SIGKILL, aimed_at)
        self._gone.append(member)

    def _after(self, seconds: float, place: int, continued: list[Target]) -> None:
        self._asked += 1
        heappush(self._later, _Later(time.monotonic() + seconds, self._asked, place, continued))

    def _do_later(self, later: _Later) -> None:
        if later.continued:
            send(signal.SIGCONT, later.continued)
            let_go(later.continued)
        else:
            self._start(later.place)

    def _look_after(self) -> None:
        """Whoever left, by being asked to, is followed by another."""
        for place, member in list(self._members.items()):
            if not member.lives():
                self._gone.append(self._members.pop(place))
                self._after(NEXT_SECONDS, place, [])

    def _dismiss(self) -> None:
        """Everybody goes on, and is asked to leave or killed, by the dice."""
        for later in self._later:
            send(signal.SIGCONT, later.continued)
        for place, member in list(self._members.items()):
            if member.lives() and self._dice.random() < 0.5:
                self._kill(place, [member.itself])
            else:
                send(signal.SIGTERM, [member.itself])
        for member in self._members.values():
            member.wait(PATIENCE_SECONDS)
