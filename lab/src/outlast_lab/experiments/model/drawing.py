"""What happens next in the exact simulation: drawn by the seed from what would be telling now.

There are few names of everything, so that steps meet on the same tasks, leases and keys. Three
profiles draw from the same rules: one for everything, two that dwell on what goes deep.
"""

import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from outlast_lab.experiments.model.exact import PROCESS_OF, ExactWorld, Held
from outlast_lab.experiments.model.records import VALUES
from outlast_lab.experiments.model.script import Step, clock, wall_clock
from outlast_lab.experiments.model.terms import CHECKPOINTS, OWN_RECOVERIES, QUEUES, RECOVERIES

Steps = Iterator[Step]

APPS = tuple(PROCESS_OF)
WAITS_MS = (None, 0, 0, 1000)


class Drawing:
    """Draws steps for one world; a rule may draw several that follow on each other."""

    def __init__(self, world: ExactWorld, chance: random.Random, profile: str) -> None:
        self._world = world
        self._chance = chance
        self._rules = PROFILES[profile]
        self._numbers = count(1)
        self._said: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def steps(self) -> Steps:
        """Without end: the next rule is drawn when the steps of the last one are done."""
        while True:
            rule = self._chance.choice(self._rules)
            yield from rule(self)

    # Names

    def _one(self, values: Any) -> Any:
        return self._chance.choice(list(values))

    def _app(self) -> str:
        return str(self._one(APPS))

    def _name(self) -> str:
        return f"t{next(self._numbers)}"

    def _task(self) -> str:
        return str(self._one([*self._world.names.values(), "nobody"]))

    def _lease(self) -> tuple[str, Held] | None:
        """Current ones, ones that were overtaken by a newer lease, and any."""
        held = self._world.held
        current = [name for name, one in held.items() if one.expected.current]
        overtaken = [name for name, one in held.items() if one.expected.overtaken]
        if not held:
            return None
        name = self._one(self._one([current, overtaken, held]) or held)
        return name, held[name]

    # Putting work in

    def _options(self) -> dict[str, Any]:
        one = self._one
        return {
            "kind": one("ab"),
            "queue": one(QUEUES),
            "priority": one((-1, 0, 1)),
            "group": one((None, None, "g1", "g2")),
            "max_retries": one((None, 0, 1, 2, 3)),
            "max_recoveries": one(OWN_RECOVERIES),
            "delay": one((None, None, 0, 1000, 10_000)),
            "run_at": one((True, False)),
        }

    def _entry(self) -> dict[str, Any]:
        """A task with an id of its own, or with one that the queue makes up."""
        entry = {"named": self._one(VALUES), "key": self._one((None, None, "k1", "k2"))}
        own = self._one((None, None, None, "t-a", "t-b", "t-c"))
        return entry | ({"name": self._name()} if own is None else {"id": own})

    def enqueue(self) -> Steps:
        """One task."""
        options, entry = self._options(), self._entry()
        self._said.append((options, entry))
        yield Step(self._app(), "enqueue", {"entry": entry, **options})

    def enqueue_again(self) -> Steps:
        """To the letter, as one does who has heard no answer."""
        if self._said:
            options, entry = self._one(self._said)
            again = entry | ({"name": self._name()} if "name" in entry else {})
            yield Step(self._app(), "enqueue", {"entry": again, **options})

    def ask_again_later(self) -> Steps:
        """When the key has run out and an object was opened since, whatever became of the task."""
        keyed = [(options, entry) for options, entry in self._said if entry["key"] is not None]
        if not keyed:
            return
        options, entry = self._one(keyed)
        app = self._app()
        yield clock(self._one((99, 100, 200)))
        yield self._ending(app)
        again = {"named": entry["named"], "key": entry["key"], "name": self._name()}
        yield Step(app, "enqueue", {"entry": again, **options})

    def enqueue_many(self) -> Steps:
        """Ids and keys are given to all of a batch or to none of it."""
        batch = []
        give_ids, give_keys = self._one((True, False)), self._one((True, False))
        for _ in range(self._one(range(5))):
            entry = self._entry()
            name = entry.pop("name", None) or self._name()
            own = entry.pop("id", None) or name
            entry["key"] = (entry["key"] or f"k-{name}") if give_keys else None
            batch.append(entry | ({"id": own} if give_ids else {"name": name}))
        yield Step(self._app(), "enqueue_many", {"entries": batch, **self._options()})

    def add_work(self) -> Steps:
        """So that a queue never runs dry."""
        model = self._world.model
        missing = 3 - len(model.tasks) + len(model.final())
        if missing > 0:
            batch = [{"named": "nothing", "name": self._name()} for _ in range(missing)]
            options = {"kind": "a", "queue": "q1", "max_retries": self._one(range(3))}
            options |= {"max_recoveries": self._one(OWN_RECOVERIES)}
            yield Step(self._app(), "enqueue_many", {"entries": batch, **options})

    def retry(self) -> Steps:
        """A final task, or one that is not."""
        final = [self._world.names[task.id] for task in self._world.model.final()]
        if final:
            task = self._one([self._one(final), self._task()])
            yield Step(self._app(), "retry", {"task": task, "name": self._name()})

    # Taking work out

    def _wish(self, **fixed: Any) -> dict[str, Any]:
        one = self._one
        return {
            "worker": one(("w1", "w1", "w2")),
            "limit": one(range(1, 6)),
            "queues": one((("q1", "q2"), ("q2", "q1"), ("q1",))),
            "kinds": one((None, None, None, ("a",), ("b", "a"), ())),
            "group": one((None, None, None, "g1")),
            "lease_ms": one((None, 2000, 20_000)),
            "begun": one((True, False)),
            **fixed,
        }

    def claim(self) -> Steps:
        """If there is anything to be had."""
        if self._world.model.ready():
            yield Step(self._app(), "claim", self._wish())

    def claim_plainly(self) -> Steps:
        """From a queue that never runs dry."""
        yield from self.add_work()
        wish = self._wish(queues=("q1",), kinds=None, group=None, lease_ms=None)
        yield Step(self._app(), "claim", wish)

    def take(self) -> Steps:
        """At most once."""
        if self._world.model.ready():
            wish = self._wish()
            for name in ("worker", "lease_ms", "begun"):
                del wish[name]
            yield Step(self._app(), "take", wish)

    # By those who hold leases, whether these are still theirs or not

    def overtake(self) -> Steps:
        """A lease runs out and its task, with all others, goes to somebody else, or to the same."""
        if found := self._lease():
            wish = {"worker": self._one(("w1", "w2")), "limit": 9, "queues": QUEUES}
            length_ms = found[1].expected.length_ms
            if self._one((True, False, False)):
                # To the last millisecond it is its holder's.
                length_ms, before_ms = 1, length_ms - 1
                yield clock(before_ms / 1000)
                yield Step(self._app(), "claim", wish)
            yield clock(length_ms / 1000)
            yield Step(self._app(), "claim", wish)

    def work(self) -> Steps:
        """Say something by a lease."""
        if found := self._lease():
            yield Step(found[1].app, self._one(("start", "renew")), {"lease": found[0]})

    def record(self) -> Steps:
        """Progress of several tasks, whose numbers have nothing to do with each other."""
        for _ in range(3):
            if found := self._lease():
                given = {"lease": found[0], "type": self._one(CHECKPOINTS)}
                yield Step(found[1].app, "checkpoint", given)

    def complete(self) -> Steps:
        """With any value."""
        if found := self._lease():
            yield Step(found[1].app, "complete", {"lease": found[0], "named": self._one(VALUES)})

    def complete_many(self) -> Steps:
        """Leases that one object handed out: good and stale, also on one task, also one twice."""
        if found := self._lease():
            app = found[1].app
            own = {name: one for name, one in self._world.held.items() if one.app == app}
            running = [n for n, o in own.items() if o.expected.current or o.expected.overtaken]
            names = [
                self._one(self._one([running, own]) or own) for _ in range(self._one(range(1, 7)))
            ]
            yield Step(app, "complete_many", {"leases": names})

    def fail(self) -> Steps:
        """With a delay, or with what the queue thinks fit."""
        if found := self._lease():
            retry, delay = self._one((True, True, False)), self._one(WAITS_MS)
            yield Step(found[1].app, "fail", {"lease": found[0], "retry": retry, "delay": delay})

    def hand_back(self) -> Steps:
        """Released, perhaps for later, or parked for a reason of the task's own."""
        if found := self._lease():
            reason, delay = self._one((None, None, "event", "delay")), self._one(WAITS_MS)
            given: dict[str, Any] = {"lease": found[0]}
            if reason is None:
                yield Step(found[1].app, "release", given | {"delay": delay})
            else:
                wait = None if reason == "event" else delay or 0
                yield Step(found[1].app, "park", given | {"reason": reason, "delay": wait})

    def come_back(self) -> Steps:
        """The same process prefetches a task anew, while the first holder still has a say."""
        if not (found := self._lease()):
            return
        name, held = found
        before = set(self._world.held)
        yield clock(self._one((1, 70)))
        yield Step(held.app, "claim", {"worker": "w1", "limit": 9, "begun": False})
        for again in [one for one in self._world.held if one not in before]:
            yield Step(held.app, "start", {"lease": again})
        if self._one((True, False)):
            yield Step(held.app, "start", {"lease": name})
        yield Step(held.app, "complete", {"lease": name, "named": "nothing"})
        if self._one((True, False)):
            yield Step(PROCESS_OF[held.app], "crashes")

    def holder_ends(self) -> Steps:
        """Well, in an error, or without goodbye."""
        if found := self._lease():
            yield self._ending(found[1].app)

    def _ending(self, app: str) -> Step:
        verb = self._one(("heal", "close", "leave", "crashes"))
        return Step(PROCESS_OF[app] if verb == "crashes" else app, verb)

    # Those who decide, and what befalls them all

    def operate(self) -> Steps:
        """On a task, without a lease."""
        if self._world.model.tasks:
            verb = self._one(("cancel", "fail_task", "park_task", "unpark_task"))
            yield Step(self._app(), verb, {"task": self._task()})

    def disturb(self) -> Steps:
        """One rule for what should happen now and then, or it would happen all the time."""
        if not self._world.model.running():
            return
        verb = self._one(("pause", "unpause", "flush", "end", "end"))
        if verb == "end":
            yield self._ending(self._app())
        elif verb == "flush":
            yield Step(self._app(), "flush")
        else:
            given = {"queue": self._one(QUEUES), "paused": verb == "pause"}
            yield Step(self._app(), "pause", given)

    def mend(self) -> Steps:
        """By the whole rule, on record or not; or by hand, of the silent, by force or without."""
        verb = self._one(("heal", "recover", "reclaim_stale"))
        by_hand = {"silent": self._one((0, 1, 30)), "force": self._one((True, False))}
        yield Step(self._app(), verb, by_hand if verb == "reclaim_stale" else {})

    def approve(self) -> Steps:
        """One of those that recovery holds."""
        if held := [task for task in self._world.model.tasks if task.parked == "hold"]:
            name = self._world.names[self._one(held).id]
            yield Step(self._app(), "unpark_task", {"task": name})

    def time_passes(self) -> Steps:
        """Past short leases and delays, past long ones, past the keys."""
        yield clock(self._one((0.5, 1, 5, 25, 200)))

    def wall_clock_is_set(self) -> Steps:
        """Delays and keys follow the wall clock; leases must not care."""
        yield wall_clock(self._one((-7200, 15)))

    def end_and_set_the_clock(self) -> Steps:
        """Perhaps while nobody looks: what opens next clears out the keys that ran out."""
        yield self._ending(self._app())
        yield wall_clock(self._one((-7200, 15)))

    def finish_some(self) -> Steps:
        """The first tasks that can be claimed go this way."""
        if not self._world.model.ready():
            return
        app, verb = self._app(), self._one(("complete", "fail", "cancel", "take", "leave"))
        if verb == "take":
            yield Step(app, "take", {"limit": 2, "queues": QUEUES})
            return
        before = set(self._world.held)
        yield Step(app, "claim", {"worker": "w1", "limit": 2, "queues": QUEUES})
        for name in [one for one in self._world.held if one not in before]:
            task = self._world.names[self._world.held[name].expected.task.id]
            if verb == "complete":
                yield Step(app, "complete", {"lease": name, "named": "an object"})
            elif verb == "fail":
                yield Step(app, "fail", {"lease": name, "retry": False})
            elif verb == "cancel":
                yield Step(app, "cancel", {"task": task})


Rule = Callable[[Drawing], Steps]

_COMING_IN: list[Rule] = [
    Drawing.enqueue, Drawing.enqueue_again, Drawing.enqueue_many, Drawing.retry,
]  # fmt: skip
_HOLDING: list[Rule] = [
    Drawing.overtake, Drawing.work, Drawing.complete, Drawing.complete_many, Drawing.fail,
    Drawing.hand_back, Drawing.record,
]  # fmt: skip

PROFILES: dict[str, list[Rule]] = {
    "anything": [
        *_COMING_IN, *_HOLDING, Drawing.claim, Drawing.claim, Drawing.take, Drawing.operate,
        Drawing.disturb, Drawing.time_passes, Drawing.wall_clock_is_set,
    ],
    "leases": [*_HOLDING, Drawing.claim_plainly, Drawing.holder_ends, Drawing.come_back],
    "keys": [
        *_COMING_IN, Drawing.finish_some, Drawing.ask_again_later, Drawing.time_passes,
        Drawing.end_and_set_the_clock,
    ],
    RECOVERIES: [
        Drawing.enqueue, Drawing.claim_plainly, Drawing.claim, Drawing.claim, Drawing.work,
        Drawing.complete, Drawing.holder_ends, Drawing.holder_ends, Drawing.come_back,
        Drawing.overtake, Drawing.mend, Drawing.mend, Drawing.mend, Drawing.approve,
        Drawing.record, Drawing.time_passes,
    ],
}  # fmt: skip
