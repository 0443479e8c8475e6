"""The simulation of calls woven into each other, one transaction at a time, and broken off.

Each step lets one actor run to its next boundary. Then the store is looked at, and what changed
is followed; an answer is held against what its call was seen to do. In the end everything must
still be possible to finish, and history and file must stand the invariants of all experiments.
"""

import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from outlast import probes
from outlast.app.app import Outlast
from outlast.testing.clock import ManualClock
from outlast_lab.experiments.model.answers import check_answer
from outlast_lab.experiments.model.baton import Actor, Died, Hung, running
from outlast_lab.experiments.model.following import Following
from outlast_lab.experiments.model.observed import Life, Ongoing, Opening, Window
from outlast_lab.experiments.model.process import StandInProcess
from outlast_lab.experiments.model.records import FINAL
from outlast_lab.experiments.model.script import TO_END, Broken, Script, Step
from outlast_lab.experiments.model.terms import POLICIES, QUEUES, STORE, settings_of
from outlast_lab.judge.foreign_reader import read_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.record.history import KILLED, Line, history_of, host_seconds
from outlast_lab.record.recorder import Witness

APP_OF = {"w1": "a1", "w2": "a1", "w3": "a2", "w4": "a3", "w5": "a4", "w6": "a4"}
PROCESS_OF = {"a1": "p1", "a2": "p1", "a3": "p2", "a4": "p3"}
"""Six actors share four Outlast objects in three processes."""

MOST_SLICES = 10_000


class Held:
    """A lease that was handed out, and whose it is."""

    def __init__(self, lease: Any, app: str, opening: Opening) -> None:
        self.lease = lease
        self.app = app
        self.opening = opening


class WovenWorld:
    """A queue on a file of its own, its actors, and the one who follows it."""

    def __init__(self, folder: Path, script: Script, seed: str) -> None:
        self.path = folder / STORE
        self.clock = ManualClock()
        self._rules = POLICIES[script.action]
        self.lines: list[Line] = []
        self._settings = settings_of(self._rules)
        self._chance = random.Random(seed)
        self._births = count(1)
        self._places = count(1)
        self._processes = {name: self._process() for name in sorted(set(PROCESS_OF.values()))}
        self._lives = {name: Life(name) for name in self._processes}
        self.apps = {app: self._app(app) for app in PROCESS_OF}
        self._openings = {app: Opening(self._lives[of]) for app, of in PROCESS_OF.items()}
        self._names = dict.fromkeys(PROCESS_OF, 1)
        self.actors = {name: Actor(name) for name in APP_OF}
        self.ongoing: dict[str, Ongoing] = {}
        self.held: dict[str, Held] = {}
        self.settled: set[str] = set()
        self.clones: dict[str, str] = {}
        self.following = Following(self._rules, self.clock)
        self.apps["a1"].open()
        self._window = Window(self.path)
        self._see(())

    def _process(self) -> StandInProcess:
        return StandInProcess(
            self.path, self._settings, self.clock, self._chance.random, births=self._births
        )

    def _app(self, app: str) -> Outlast:
        return self._processes[PROCESS_OF[app]].outlast(lambda: self._closes(app))

    # The steps

    def do(self, step: Step) -> str:
        """Let one thing happen, and follow what came of it; what there is to tell, in words."""
        if step.verb == "clock":
            self.clock.advance(step.args["seconds"])
        elif step.verb == "wall clock":
            self.clock.step_utc(step.args["seconds"])
        elif step.verb == "crashes":
            self._crash(step.who)
        elif step.is_call:
            return self._call(step)
        elif step.verb == "dies":
            return self._die(step.who, step.args["probe"])
        elif step.verb == "ends its call":
            return self._to_its_end(step.who)
        elif not self.actors[step.who].is_idle:
            return self._slice(step.who, lines_up=step.verb == "lines up")
        return ""

    def _call(self, step: Step) -> str:
        """An actor in the middle of another call ends that one first."""
        from outlast_lab.experiments.model.woven_calls import prepared

        told = self._to_its_end(step.who)
        call, job = prepared(self, step)
        if call is None:
            return told
        self.ongoing[step.who] = call
        actor = self.actors[step.who]
        actor.lines_up = False
        self._run(step.who, lambda: actor.begin(job))
        if step.tail == TO_END:
            self._to_its_end(step.who)
        return self._told(step.who)

    def _slice(self, who: str, lines_up: bool = False) -> str:
        actor = self.actors[who]
        if actor.is_blocked:
            return f"waits for {actor.boundary}"
        actor.lines_up = lines_up
        self._run(who, actor.go_on)
        return self._told(who)

    def _told(self, who: str) -> str:
        actor, call = self.actors[who], self.ongoing.get(who)
        if actor.boundary is not None:
            return actor.boundary
        return str(call.answer) if call is not None and call.answer is not None else ""

    def _to_its_end(self, who: str) -> str:
        """Whoever an actor waits for is let run on until it has what it needs."""
        actor = self.actors[who]
        for _ in range(MOST_SLICES):
            if actor.is_idle:
                return self._told(who)
            others = [one for one in self.actors.values() if not one.is_idle and not one.is_blocked]
            runner = next((one for one in others if one is not actor), actor)
            self._slice(runner.name if actor.is_blocked else who)
        raise Broken(f"{who} came to no end: {actor.boundary}")

    def _run(self, who: str, run: Callable[[], None]) -> None:
        """One slice: whoever is lined up in the same process may be taken along."""
        life = self._life_of(who)
        taken_along = [
            call
            for name, call in self.ongoing.items()
            if name != who and call.queued_at is not None and self._life_of(name) is life
        ]
        call = self.ongoing[who]
        try:
            run()
        except Hung as error:
            raise Broken(str(error)) from error
        self._see([call, *taken_along])
        is_queued = (self.actors[who].boundary or "").startswith("in the queue")
        call.queued_at = next(self._places) if is_queued else None
        if self.actors[who].is_idle and not life.is_dead:
            check_answer(self.following, call)
            self._check_left(call.opening)

    def _check_left(self, opening: Opening) -> None:
        """A closed object holds nothing, once all calls that were under way have ended."""
        busy = [call for who, call in self.ongoing.items() if not self.actors[who].is_idle]
        if not opening.is_closing or any(call.opening is opening for call in busy):
            return
        for lease, holder in self.following.holders.items():
            if holder.opening is opening and self.following.is_current(lease):
                raise Broken(f"{holder.worker} is closed and still holds {lease}")

    def _see(self, calls: Any) -> None:
        look = self._window.look()
        if look is not None:
            self.following.see(look, calls)

    # Dying

    def _life_of(self, who: str) -> Life:
        return self._lives[PROCESS_OF[APP_OF[who]]]

    def _crash(self, process: str) -> None:
        """Everything the process holds is let go of; then its actors are told."""
        self._lives[process].is_dead = True
        own = [name for name, app in APP_OF.items() if PROCESS_OF[app] == process]
        for name in own:
            self.actors[name].is_dead = True
        self._processes[process].crash()
        for name in own:
            if not self.actors[name].is_idle:
                self.actors[name].go_on()
        self._begin_anew(process)
        self._see([call for name, call in self.ongoing.items() if name in own])
        for name in own:
            self.ongoing.pop(name, None)

    def _begin_anew(self, process: str) -> None:
        """The next process of this name knows nothing of the last one."""
        life = self._lives[process]
        at = host_seconds()
        self.held = {n: one for n, one in self.held.items() if one.opening.life is not life}
        self._lives[process] = Life(process)
        for app in [app for app, of in PROCESS_OF.items() if of == process]:
            for name in [name for name, its in APP_OF.items() if its == app]:
                self.lines.append([KILLED, self.worker_name(name), at])
                self.actors[name] = Actor(name)
            self.apps[app] = self._app(app)
            self._open_anew(app)

    def _closes(self, app: str) -> None:
        """What begins from now on finds the object closed, or waits until it is."""
        if not self._lives[PROCESS_OF[app]].is_dead:
            self._openings[app].is_closing = True
            self._open_anew(app)

    def _open_anew(self, app: str) -> None:
        """From now on the object's workers have other names, and its leases another opening."""
        self._names[app] += 1
        self._openings[app] = Opening(self._lives[PROCESS_OF[app]])

    def _die(self, who: str, probe: str) -> str:
        """An actor goes on until its process dies at a point inside of a transaction."""
        actor = self.actors[who]
        if actor.is_idle or actor.is_blocked:
            return ""
        process = PROCESS_OF[APP_OF[who]]
        own = [name for name, app in APP_OF.items() if PROCESS_OF[app] == process]

        def kill(passed: str) -> None:
            if passed == probe and running() is actor:
                for name in own:
                    self.actors[name].is_dead = True
                self._lives[process].is_dead = True
                self._processes[process].crash()
                raise Died

        before = probes.armed()
        probes.arm(kill)
        try:
            told = self._slice(who)
        finally:
            probes.arm(before)
        if not self._lives[process].is_dead:
            return told
        self._crash(process)
        return f"{process} is dead"

    # What calls need

    def worker_name(self, who: str) -> str:
        """The name an actor works under: another one after each end of its object."""
        number = self._names[APP_OF[who]]
        return who if number == 1 else f"{who}.{number}"

    def opening(self, app: str) -> Opening:
        """The present use of an object."""
        return self._openings[app]

    def witness(self, who: str, app: str | None = None) -> Witness:
        """An actor's object on the record; what a dead process writes down is lost."""
        app = app or APP_OF[who]
        life = self._lives[PROCESS_OF[app]]

        def write(line: Line) -> None:
            if not life.is_dead:
                self.lines.append(line)

        witness = Witness(self.apps[app], self.worker_name(who), write, self.clock)
        for name, its in APP_OF.items():
            if its == app:
                witness.named(self.worker_name(name))
        return witness

    def id_of(self, name: str) -> str:
        """The id of a task; only clones are called otherwise than they are named."""
        return self.clones.get(name, name)

    # The end

    def finish(self) -> None:
        """All calls end; then nothing is stuck, and history and file stand the invariants."""
        for name in self.actors:
            self._to_its_end(name)
        closing = [Ongoing("", "close", {}, one, 0) for one in self._openings.values()]
        for app in self.apps:
            self.witness(next(name for name, its in APP_OF.items() if its == app)).close()
        self._see(closing)
        self._finish_all_work()
        self._window.close()
        found = violations(history_of(self.lines), read_stored(self.path), is_steady=False)
        if found:
            raise Broken("; ".join(map(str, found[:3])))

    def _finish_all_work(self) -> None:
        witness = self.witness("w1")
        for queue in QUEUES:
            witness.unpause(queue)
        for row in list(self.following.rows()):
            if row.parked and row.parked != "delay":
                witness.unpark_task(row.id)
        self.clock.advance(7 * 86_400)
        witness.recover()
        witness.reclaim_stale(0)
        for task in self.apps["a1"].tasks("pending", limit=1000):
            if task.parked == "hold":
                witness.unpark_task(task.id)
        for _ in range(3):
            for lease in witness.claim(limit=1000, queue=list(QUEUES)):
                witness.complete(lease, "at last")
        statuses = {task.id: str(task.status) for task in self.apps["a1"].tasks(limit=1000)}
        witness.close()
        stuck = {one: status for one, status in statuses.items() if status not in FINAL}
        if stuck:
            raise Broken(f"stuck for ever: {stuck}")

    def named(self, text: str) -> str:
        """A text with the script's names for clones."""
        for name, task_id in self.clones.items():
            text = text.replace(task_id, name)
        return text

    def close(self) -> None:
        """Let go of everything, whatever happened; nobody's thread stays behind."""
        for life in self._lives.values():
            life.is_dead = True
        for actor in self.actors.values():
            actor.is_dead = True
        for process in self._processes.values():
            process.crash()
        for actor in self.actors.values():
            if not actor.is_idle:
                actor.go_on()
        self._window.close()
