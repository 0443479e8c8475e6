"""The simulation of whole calls: each is made to the queue and to the model, which must agree."""

import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from outlast.errors import (
    IdempotencyConflict,
    InvalidInput,
    InvalidTransition,
    LeaseLost,
    OutlastError,
    TaskNotFound,
)
from outlast.testing.clock import ManualClock
from outlast_lab.experiments.model import records
from outlast_lab.experiments.model.compare import Comparison, ms, same
from outlast_lab.experiments.model.process import StandInProcess
from outlast_lab.experiments.model.records import FINAL, Refused, Task, Wish
from outlast_lab.experiments.model.reference import Model
from outlast_lab.experiments.model.script import Broken, Script, Step
from outlast_lab.experiments.model.terms import POLICIES, QUEUES, STORE, settings_of

PROCESS_OF = {"a1": "p1", "a2": "p1", "a3": "p2"}
"""Three Outlast objects: two of one process, which share an incarnation, and one of another."""

REFUSALS: dict[type[OutlastError], str] = {
    LeaseLost: "lease lost",
    TaskNotFound: "no such task",
    InvalidTransition: "illegal move",
    IdempotencyConflict: "key conflict",
    InvalidInput: "bad input",
}


class Outcome:
    """What came of a call: a value, or a refusal in the model's words."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self.value: Any = None
        self.refusal: tuple[str, tuple[str, ...]] | None = None
        try:
            self.value = action()
        except Refused as refused:
            self.refusal = (refused.word, refused.task_ids)
        except tuple(REFUSALS) as error:
            lost = sorted(error.task_ids) if isinstance(error, LeaseLost) else ()
            self.refusal = (REFUSALS[type(error)], tuple(lost))

    def told(self) -> tuple[Any, Any]:
        """What two outcomes are compared by."""
        return self.value, self.refusal


class Held:
    """One lease as the queue gave it and as the model did."""

    def __init__(self, app: str, real: Any, expected: records.Lease) -> None:
        self.app = app
        self.real = real
        self.expected = expected


class ExactWorld:
    """A queue on a file of its own, its model, and the names of a script for what is in both."""

    def __init__(self, folder: Path, script: Script, seed: str) -> None:
        self.path = folder / STORE
        self.clock = ManualClock()
        rules = POLICIES[script.action]
        self.model = Model(rules, *self.clock.now(), processes=PROCESS_OF)
        settings, chance, births = settings_of(rules), random.Random(seed), count(1)
        self.processes = {
            name: StandInProcess(self.path, settings, self.clock, chance.random, births=births)
            for name in sorted(set(PROCESS_OF.values()))
        }
        self.apps = {app: self.processes[of].outlast() for app, of in PROCESS_OF.items()}
        self.held: dict[str, Held] = {}
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.accepted: dict[Task, int] = {}
        self._comparison = Comparison()
        self._looks = 0
        self.apps["a1"].open()
        self.model.serve("a1")

    # What a step needs

    def both(self, real: Callable[[], Any], expected: Callable[[], Any]) -> Outcome:
        """Do the same to the queue and to the model; they must answer alike."""
        came = Outcome(real)
        self.agree(came, Outcome(expected))
        return came

    def serving(self, app: str, real: Callable[[], Any], expected: Callable[[], Any]) -> Outcome:
        """The same for a call that opens the store to serve, if it is not open yet."""

        def served() -> Any:
            self.model.serve(app)
            return expected()

        return self.both(real, served)

    @staticmethod
    def agree(came: Outcome, wanted: Outcome) -> None:
        """Raises Broken if the two answers differ."""
        same("the answers", came.told(), wanted.told())

    def name(self, name: str, task_id: str) -> None:
        """A task is called so in the script from now on."""
        self.ids[name] = task_id
        self.names[task_id] = name

    def id_of(self, name: str) -> str:
        """The id of a task that the script names; of one nobody knows, a name that is none."""
        return self.ids.get(name, f"no {name}")

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.clock.advance(seconds)
        self.model.utc, self.model.mono = self.clock.now()

    def set_wall_clock(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.clock.step_utc(seconds)
        self.model.utc, self.model.mono = self.clock.now()

    def crash(self, process: str) -> None:
        """Its leases die with it: nobody is left who could use them."""
        self.processes[process].crash()
        self.model.crash(process)
        self.held = {name: one for name, one in self.held.items() if PROCESS_OF[one.app] != process}
        for app, of in PROCESS_OF.items():
            if of == process:
                self.apps[app] = self.processes[process].outlast()

    # The steps

    def do(self, step: Step) -> str:
        """Do one step to both and compare them; what was answered, in words."""
        from outlast_lab.experiments.model.calls import CALLS

        answer = ""
        if step.verb == "clock":
            self.advance(step.args["seconds"])
        elif step.verb == "wall clock":
            self.set_wall_clock(step.args["seconds"])
        elif step.verb == "crashes":
            self.crash(step.who)
        else:
            answer = self._in_words(CALLS[step.verb](self, step.who, **step.args))
        self.compare()
        return answer

    def compare(self, in_full: bool = False) -> None:
        """Each object is asked in turn; one that is closed opens to look, and changes nothing."""
        self._looks += 1
        apps = list(self.apps.values())
        self._comparison.compare(apps[self._looks % len(apps)], self.model, in_full)

    def _in_words(self, outcome: Any) -> str:
        if not isinstance(outcome, Outcome):
            return "" if outcome is None else str(outcome)
        if outcome.refusal is not None:
            word, ids = outcome.refusal
            return " ".join([f"refused, {word}", *(self.names.get(one, one) for one in ids)])
        value = outcome.value
        if isinstance(value, list):
            return ", ".join(self.names.get(one, str(one)) for one in value) or "nothing"
        return self.names.get(value, str(value)) if isinstance(value, str) else str(value)

    # The end

    def finish(self) -> None:
        """Whatever happened before, nothing is stuck: all that is not final can be completed."""
        from outlast_lab.experiments.model import calls, mending_calls

        for queue in QUEUES:
            calls.pause(self, "a1", queue, False)
        self.advance(86_400)
        mending_calls.recover(self, "a1")
        mending_calls.reclaim_stale(self, "a1", 0, False)
        for task in [task for task in self.model.tasks if task.parked]:
            calls.unpark_task(self, "a1", self.names[task.id])
        for held in calls.hand_out(self, "a1", Wish(limit=1000, queues=QUEUES)):
            calls.complete_held(self, held, "at last")
        self.compare(in_full=True)
        for task in self.model.tasks:
            if task.status not in FINAL:
                raise Broken(f"{self.names[task.id]} is stuck: it is {task.status} for ever")
        self._check_results()

    def _check_results(self) -> None:
        """A completed task had exactly one result accepted, of an execution; the others none."""
        for task in self.model.tasks:
            completed = self.apps["a1"].get(task.id).status == "completed"
            moves = self.apps["a1"].history(task.id)
            executions = sum(move.to_status == "running" for move in moves)
            name = self.names[task.id]
            same(f"the accepted results of {name}", self.accepted.get(task, 0), int(completed))
            if executions < completed:
                raise Broken(f"{name} is completed and never ran")

    def named(self, text: str) -> str:
        """A text with the script's names for tasks."""
        for task_id, name in self.names.items():
            text = text.replace(task_id, name)
        return text

    def close(self) -> None:
        """Let go of everything, whatever happened."""
        for process in self.processes.values():
            process.crash()

    def backed_off(self, task_id: str, latest: int | None) -> int:
        """How long a retry waits is random: the model knows the longest wait, half is the least."""
        found = ms(self.apps["a1"].get(task_id).not_before)
        if found is None or latest is None:
            raise Broken("a task that failed waits without knowing for how long")
        longest = latest - self.model.utc
        if not longest / 2 <= found - self.model.utc <= longest:
            raise Broken(f"a retry waits {found - self.model.utc} ms, not {longest // 2}…{longest}")
        return found
