"""What happens next in the woven simulation: who runs on, who begins what, and what breaks."""

import random
from collections.abc import Iterator
from itertools import count
from typing import Any

from outlast_lab.experiments.model.script import TO_END, Step, clock, wall_clock
from outlast_lab.experiments.model.terms import CHECKPOINTS, OWN_RECOVERIES, QUEUES, RECOVERIES
from outlast_lab.experiments.model.woven import APP_OF, PROCESS_OF, WovenWorld

# Points inside of transactions, and after their commit while nobody has heard of it.
PROBES = (
    "enqueue.begun", "enqueue.inserted", "enqueue.committed", "claim.updated", "claim.written",
    "claim.committed", "settle.updated", "settle.written", "settle.committed", "heal.written",
    "heal.committed", "renew.committed", "checkpoint.committed", "group.written",
    "group.committed", "close.written", "close.committed",
)  # fmt: skip

_EVENTS: dict[str, float] = {
    "duel": 3, "goes on": 60, "begins": 24, "ends its call": 8, "lines up": 8, "clock": 5,
    "dies": 3, "crashes": 1.5, "wall clock": 0.5,
}  # fmt: skip

_VERBS: dict[str, float] = {
    "enqueue": 8, "enqueue_many": 4, "retry": 2, "claim": 14, "prefetch": 8, "take": 2,
    "start": 3, "renew": 4, "checkpoint": 4, "complete": 9, "fail": 5, "release": 3, "park": 1,
    "complete_many": 3, "cancel": 2, "fail_task": 1, "park_task": 1, "unpark_task": 2,
    "pause": 0.5, "unpause": 1, "heal": 6, "flush": 1, "close": 2, "leave": 1,
}  # fmt: skip

_VERBS_OF: dict[str, dict[str, float]] = {
    "calls": _VERBS,
    RECOVERIES: _VERBS | {"heal": 8, "recover": 8, "reclaim_stale": 8, "unpark_task": 6},
}
_PROBES_OF = {
    "calls": PROBES,
    RECOVERIES: (*PROBES, "recover.begun", "recover.written", "recover.committed", "heal.begun"),
}


class Weaving:
    """Draws the steps of one woven world."""

    def __init__(self, world: WovenWorld, chance: random.Random, profile: str) -> None:
        self._world = world
        self._verbs = _VERBS_OF[profile]
        self._probes = _PROBES_OF[profile]
        self._chance = chance
        self._numbers = count(1)
        self._known: list[str] = []

    def steps(self) -> Iterator[Step]:
        """Without end."""
        while True:
            event = self._drawn(_EVENTS)
            if event == "duel":
                yield from self._duel()
            elif (step := self._next(event)) is not None:
                yield step

    def _one(self, values: Any) -> Any:
        return self._chance.choice(list(values))

    def _drawn(self, weights: dict[str, float]) -> str:
        return self._chance.choices(list(weights), list(weights.values()))[0]

    def _duel(self) -> Iterator[Step]:
        """A lease runs out, and its holder still has a say: after or while it is taken back."""
        world, now = self._world, self._world.clock.now().mono_ms
        held = {(one.lease.task_id, one.lease.token): name for name, one in world.held.items()}
        rows = [row for row in world.following.rows() if row.ends and row.lease in held]
        if not rows:
            return
        row = self._one(rows)
        name = held[row.lease]
        life = world.held[name].opening.life
        speakers = [who for who in APP_OF if world.opening(APP_OF[who]).life is life]
        holder = [who for who in speakers if world.worker_name(who) == row.worker]
        yield clock(max(0, row.ends - now) / 1000)
        if holder and self._one((True, False)):
            # The holder itself takes its task anew, and has two leases on it then.
            yield Step(holder[0], "claim", self._wish() | {"limit": 5}, TO_END)
            yield self._said_by(self._one(speakers), name)
        else:
            yield from self._contested(self._one(speakers), name)

    def _contested(self, speaker: str, lease: str) -> Iterator[Step]:
        idle = [name for name, actor in self._world.actors.items() if actor.is_idle]
        others = [name for name in idle if name != speaker]
        if not others:
            return
        healer = self._one(others)
        yield Step(healer, *self._one((("heal", {}), ("claim", self._wish()))))
        for _ in range(self._one(range(6))):
            yield Step(healer, "goes on")
        yield self._said_by(speaker, lease)
        for _ in range(self._one(range(4))):
            yield Step(healer, "goes on")

    def _said_by(self, who: str, lease: str) -> Step:
        verb = self._one(("renew", "renew", "complete", "fail", "release", "checkpoint"))
        more: dict[str, Any] = {"retry": True} if verb == "fail" else {}
        more |= self._record() if verb == "checkpoint" else {}
        return Step(who, verb, {"lease": lease, **more}, self._one(("", TO_END)))

    def _next(self, event: str) -> Step | None:
        busy = [name for name, actor in self._world.actors.items() if not actor.is_idle]
        idle = [name for name in APP_OF if name not in busy]
        if event == "clock":
            return clock(self._one((0.001, 0.5, 1, 1.999, 2, 5, 19.999, 25, 60)))
        if event == "wall clock":
            return wall_clock(self._one((-7200, 15)))
        if event == "crashes":
            return Step(self._one(sorted(set(PROCESS_OF.values()))), "crashes")
        if event == "begins":
            return self._call(self._one(idle)) if idle else None
        if not busy:
            return None
        who = self._one(busy)
        if event == "dies":
            return Step(who, "dies", {"probe": self._one(self._probes)})
        return Step(who, event)

    def _name(self) -> str:
        name = f"t{next(self._numbers)}"
        self._known.append(name)
        return name

    def _lease(self, who: str) -> str | None:
        """One that is current, if there is a choice; stale ones must be refused."""
        world = self._world
        life = world.opening(APP_OF[who]).life
        own = [name for name, one in world.held.items() if one.opening.life is life]
        current = [
            name
            for name in own
            if world.following.is_current(
                (world.held[name].lease.task_id, world.held[name].lease.token)
            )
        ]
        return self._one(self._one((current, current, own)) or own) if own else None

    def _call(self, who: str) -> Step | None:
        verb = self._drawn(self._verbs)
        args = self._arguments(verb, who)
        return None if args is None else Step(who, verb, args)

    def _arguments(self, verb: str, who: str) -> dict[str, Any] | None:
        if verb in ("start", "renew", "checkpoint", "complete", "fail", "release", "park"):
            return self._by_lease(verb, who)
        if verb in ("cancel", "fail_task", "park_task", "unpark_task", "retry"):
            if not self._known:
                return None
            named = {"name": self._name()} if verb == "retry" else {}
            return {"task": self._one(self._known), **named}
        if verb in ("claim", "prefetch"):
            return self._wish()
        return self._plain(verb, who)

    def _by_lease(self, verb: str, who: str) -> dict[str, Any] | None:
        lease = self._lease(who)
        if lease is None:
            return None
        more: dict[str, Any] = {"retry": self._one((True, True, False))} if verb == "fail" else {}
        if verb == "checkpoint":
            more = self._record()
        return {"lease": lease, **more}

    def _record(self) -> dict[str, Any]:
        return {"type": self._one(CHECKPOINTS), "n": next(self._numbers)}

    def _wish(self) -> dict[str, Any]:
        return {
            "limit": self._one((1, 2, 3, 5)),
            "queues": self._one((QUEUES, QUEUES, ("q1",))),
            "lease_ms": self._one((None, 2000, 20_000)),
        }

    def _plain(self, verb: str, who: str) -> dict[str, Any] | None:
        if verb == "enqueue":
            name = self._name()
            key = self._one((None, None, None, "k1", "k2", f"k-{name}"))
            return {
                "task": name,
                "kind": self._one("ab"),
                "queue": self._one(QUEUES),
                "priority": self._one((0, 0, 1)),
                "delay": self._one((None, None, None, 2)),
                "max_recoveries": self._one(OWN_RECOVERIES),
                **({} if key is None else {"key": key}),
            }
        if verb == "enqueue_many":
            names = [self._name() for _ in range(self._one((1, 2, 3)))]
            keys = [self._one(("k1", "k2", f"k-{name}")) for name in names]
            given = {"keys": keys} if self._one((True, False)) else {}
            return {"tasks": names, "queue": self._one(QUEUES), **given}
        if verb == "take":
            return {"limit": 1, "queues": QUEUES}
        if verb == "complete_many":
            return self._batch(who)
        if verb in ("pause", "unpause"):
            return {"queue": self._one(QUEUES)}
        if verb == "reclaim_stale":
            return {"silent": self._one((0, 1, 30)), "force": self._one((True, False))}
        if verb == "flush":
            return {"mode": self._one(("passive", "truncate"))}
        return {}

    def _batch(self, who: str) -> dict[str, Any] | None:
        own = [name for name, one in self._world.held.items() if one.app == APP_OF[who]]
        self._chance.shuffle(own)
        return {"leases": own[:3]} if own else None
