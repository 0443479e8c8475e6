"""The calls of the woven simulation, each made by an actor on the record."""

from collections.abc import Callable
from typing import Any

from outlast.errors import LeaseLost
from outlast_lab.experiments.model.answers import Answer
from outlast_lab.experiments.model.observed import Ongoing
from outlast_lab.experiments.model.script import Step
from outlast_lab.experiments.model.woven import APP_OF, Held, WovenWorld
from outlast_lab.record.history import ANSWERED
from outlast_lab.record.recorder import Witness

Job = Callable[[], None]
Act = Callable[[Witness, Ongoing], Any]


def prepared(world: WovenWorld, step: Step) -> tuple[Ongoing | None, Job]:
    """A call that can be begun; None when a shortened script has no such lease any more."""
    # Made first: an object that leaves does so under the names it had.
    witness = world.witness(step.who)
    verbs = _BY_LEASE if "lease" in step.args else _OTHERS
    found = verbs[step.verb](world, step)
    if found is None:
        return None, lambda: None
    call, action = found

    def job() -> None:
        told_before = len(world.lines)
        value = action(witness, call)
        if not call.opening.life.is_dead:
            call.answer = _answer(world, call, value, told_before)
            call.opening.is_serving |= step.verb in _SERVING and call.answer.outcome == "done"
            if step.verb in ("claim", "prefetch"):
                _remember(world, step.who, call, value)

    return call, job


def _ongoing(world: WovenWorld, step: Step, **known: Any) -> Ongoing:
    opening = world.opening(APP_OF[step.who])
    return Ongoing(
        world.worker_name(step.who), step.verb, step.args, opening,
        world.clock.now().utc_ms, opens=not opening.is_serving, **known,
    )  # fmt: skip


def _answer(world: WovenWorld, call: Ongoing, value: Any, told_before: int) -> Answer:
    """The last line of this worker says what came of it."""
    _, _, _, outcome, told, *_ = next(
        line
        for line in reversed(world.lines[told_before:])
        if line[0] == ANSWERED and line[2] == call.worker
    )
    if outcome != "done":
        return Answer(outcome, error=str(told), words=f"{outcome}, {str(told).partition(':')[0]}")
    if call.verb in ("claim", "prefetch"):
        leases = frozenset((one.task_id, one.token) for one in value)
        words = ", ".join(_lease_name(world, one) for one in value) or "nothing"
        return Answer("done", leases=leases, words=words)
    if call.verb == "heal":
        return Answer("done", value.entries_reclaimed + value.entries_failed, words=_healed(value))
    if call.verb == "recover":
        moved = value.tasks_put_back + value.tasks_failed
        return Answer("done", moved, words=f"run {value.run_id} moved {moved}")
    if call.verb == "reclaim_stale":
        return Answer("done", value, words=str(value))
    if call.verb == "take":
        return Answer("done", [task.id for task in value], words=_names(world, value))
    if call.verb in ("enqueue", "retry"):
        return Answer("done", [value.id], words=_names(world, [value]))
    if call.verb in ("complete", "fail", "release", "park", "cancel", "fail_task"):
        return Answer("done", value is not False, words=str(value is not False))
    return Answer("done", words="done")


def _healed(value: Any) -> str:
    return f"{value.entries_reclaimed} back, {value.entries_failed} failed"


def _names(world: WovenWorld, tasks: Any) -> str:
    names = {task_id: name for name, task_id in world.clones.items()}
    return ", ".join(names.get(task.id, task.id) for task in tasks) or "nothing"


def _lease_name(world: WovenWorld, lease: Any) -> str:
    names = {task_id: name for name, task_id in world.clones.items()}
    return f"{names.get(lease.task_id, lease.task_id)} token {lease.token}"


def _remember(world: WovenWorld, who: str, call: Ongoing, leases: Any) -> None:
    app = APP_OF[who]
    for lease in leases:
        world.held[_lease_name(world, lease)] = Held(lease, app, call.opening)


_SERVING = (
    "enqueue", "claim", "prefetch", "take", "heal", "recover", "reclaim_stale", "pause", "unpause",
    "flush",
)  # fmt: skip


# Calls without a lease

Prepared = tuple[Ongoing, Act] | None


def _enqueue(world: WovenWorld, step: Step) -> Prepared:
    args = step.args
    named = ("queue", "priority", "group", "max_recoveries")
    options: dict[str, Any] = {name: args[name] for name in named if name in args}
    if args.get("delay"):
        options["delay"] = args["delay"]
    if args.get("key"):
        options["idempotency_key"] = args["key"]
    call = _ongoing(world, step, task_ids=frozenset({args["task"]}))
    return call, lambda one, call: one.enqueue(args["task"], {"of": 1}, args["kind"], **options)


def _enqueue_many(world: WovenWorld, step: Step) -> Prepared:
    """The payloads are alike, so that a key stands for the same request each time."""
    ids = step.args["tasks"]
    options = {"queue": step.args["queue"]}
    if "keys" in step.args:
        options["idempotency_key"] = step.args["keys"]
    call = _ongoing(world, step, task_ids=frozenset(ids))
    return call, lambda one, call: one.enqueue_many(ids, [0] * len(ids), "a", **options)


def _retry(world: WovenWorld, step: Step) -> Prepared:
    """The clone is named when it is seen, whether its caller lives to hear of it or not."""
    task_id = world.id_of(step.args["task"])
    call = _ongoing(world, step, task_ids=frozenset({task_id}))

    def act(one: Witness, call: Ongoing) -> Any:
        clone = one.retry(task_id)
        if clone is not None:
            world.clones[step.args["name"]] = clone.id
        return clone

    return call, act


def _claim(world: WovenWorld, step: Step) -> Prepared:
    args = step.args
    options: dict[str, Any] = {"limit": args["limit"], "queue": list(args["queues"])}
    if args.get("lease_ms"):
        options["lease"] = args["lease_ms"] / 1000
    for name in ("kinds", "group"):
        if args.get(name):
            options[name] = args[name]
    call = _ongoing(world, step)
    return call, lambda one, call: getattr(one, step.verb)(**options)


def _operate(world: WovenWorld, step: Step) -> Prepared:
    task_id = world.id_of(step.args["task"])
    call = _ongoing(world, step, task_ids=frozenset({task_id}))
    words = ("unwanted",) if step.verb == "fail_task" else ()
    return call, lambda one, call: getattr(one, step.verb)(task_id, *words)


def _plainly(*names: str) -> Callable[[WovenWorld, Step], Prepared]:
    """A call of the verb's own name, with these of the step's arguments."""

    def prepare(world: WovenWorld, step: Step) -> Prepared:
        given = [step.args[name] for name in names]
        return _ongoing(world, step), lambda one, call: getattr(one, step.verb)(*given)

    return prepare


def _take(world: WovenWorld, step: Step) -> Prepared:
    args = step.args
    call = _ongoing(world, step)
    return call, lambda one, call: one.take(args["limit"], queue=list(args["queues"]))


_ERRORS: dict[str, Any] = {
    "close": (None, None, None),
    "leave": (ValueError, ValueError("a bug"), None),
}


def _leave(world: WovenWorld, step: Step) -> Prepared:
    """Close in peace, or be driven out by an error; the object may be used again afterwards."""
    app = APP_OF[step.who]
    call = _ongoing(world, step)

    def act(one: Witness, call: Ongoing) -> None:
        one.leaving()
        one.call(step.verb, {}, lambda: one.app.__exit__(*_ERRORS[step.verb]))
        # Whoever was served meanwhile was served by what is closed now.
        world.opening(app).is_serving = False

    return call, act


def _complete_many(world: WovenWorld, step: Step) -> Prepared:
    names = [name for name in step.args["leases"] if name in world.held]
    held = [world.held[name] for name in names if world.held[name].app == APP_OF[step.who]]
    if not held:
        return None
    leases = frozenset((one.lease.task_id, one.lease.token) for one in held)
    call = _ongoing(world, step, leases=leases)

    def act(one: Witness, call: Ongoing) -> Any:
        results = [f"result {n}" for n in range(len(held))]
        given = {
            "leases": [[h.lease.task_id, h.lease.token] for h in held],
            "results": results,
        }

        def complete() -> list[bool]:
            pairs = [(h.lease, result) for h, result in zip(held, results, strict=True)]
            try:
                return [bool(answer) for answer in one.app.complete_many(pairs)]
            except LeaseLost as error:
                # Of those that are not lost, some may have been settled by an earlier call.
                return [
                    h.lease.task_id not in error.task_ids
                    and (h.lease.task_id, h.lease.token) in call.settled
                    for h in held
                ]

        return one.call("complete_many", given, complete, lambda value: value)

    return call, act


_OTHERS: dict[str, Callable[[WovenWorld, Step], Prepared]] = {
    "enqueue": _enqueue,
    "enqueue_many": _enqueue_many,
    "retry": _retry,
    "claim": _claim,
    "prefetch": _claim,
    "take": _take,
    "cancel": _operate,
    "fail_task": _operate,
    "park_task": _operate,
    "unpark_task": _operate,
    "pause": _plainly("queue"),
    "unpause": _plainly("queue"),
    "heal": _plainly(),
    "recover": _plainly(),
    "reclaim_stale": _plainly("silent", "force"),
    "open": _plainly(),
    "flush": _plainly("mode"),
    "close": _leave,
    "leave": _leave,
    "complete_many": _complete_many,
}


# Calls by a lease, whether it is still its holder's or not


def _by_lease(act: Callable[[Witness, Any, Step], Any]) -> Callable[[WovenWorld, Step], Prepared]:
    def prepare(world: WovenWorld, step: Step) -> Prepared:
        held = world.held.get(step.args["lease"])
        if held is None or held.opening.life is not world.opening(APP_OF[step.who]).life:
            return None
        lease = held.lease
        call = _ongoing(world, step, leases=frozenset({(lease.task_id, lease.token)}))

        def acted(one: Witness, call: Ongoing) -> Any:
            before = len(world.lines)
            value = act(one, lease, step)
            done = any(line[0] == ANSWERED and line[3] == "done" for line in world.lines[before:])
            if step.verb == "start" and done:
                world.following.holders[lease.task_id, lease.token].begun = True
            return value

        return call, acted

    return prepare


_BY_LEASE: dict[str, Callable[[WovenWorld, Step], Prepared]] = {
    "start": _by_lease(lambda one, lease, step: one.start(lease)),
    "renew": _by_lease(lambda one, lease, step: one.renew(lease)),
    "checkpoint": _by_lease(
        lambda one, lease, step: one.checkpoint(lease, step.args["type"], {"n": step.args["n"]})
    ),
    "complete": _by_lease(lambda one, lease, step: one.complete(lease, "well")),
    "fail": _by_lease(lambda one, lease, step: one.fail(lease, "broken", retry=step.args["retry"])),
    "release": _by_lease(lambda one, lease, step: one.release(lease)),
    "park": _by_lease(lambda one, lease, step: one.park(lease, "event")),
}
