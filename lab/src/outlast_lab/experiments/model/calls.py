"""The calls of the exact simulation: each made to the queue and to the model, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from outlast_lab.experiments.model.compare import same
from outlast_lab.experiments.model.exact import ExactWorld, Held, Outcome
from outlast_lab.experiments.model.mending_calls import heal, reclaim_stale, recover
from outlast_lab.experiments.model.records import VALUES, Entry, Options, Task, Wish
from outlast_lab.experiments.model.script import Broken

Given = dict[str, Any]

MADE_UP = "made up"
"""The id of an entry that the queue names, in the model, until the queue has told its name."""


# Putting work in


def enqueue(world: ExactWorld, app: str, entry: Given, **options: Any) -> Outcome:
    """One task; the record that comes back is the one that is stored."""
    one, said = Entry(**_without_name(entry)), Options(**options)
    came = Outcome(
        lambda: world.apps[app].enqueue(
            said.kind, one.payload, **_arguments(world, said), id=one.id, idempotency_key=one.key
        )
    )
    if came.refusal is None:
        if came.value != world.apps[app].get(came.value.id):
            raise Broken(f"enqueue returned {came.value}, which is not what is stored")
        came.value = [came.value.id]
    return _enqueued(world, app, came, said, [entry])


def enqueue_many(world: ExactWorld, app: str, entries: list[Given], **options: Any) -> Outcome:
    """Ids and keys are given to all of a batch or to none of it."""
    said = Options(**options)
    batch = [Entry(**_without_name(entry)) for entry in entries]
    ids = [entry.id for entry in batch if entry.id is not None]
    keys = [entry.key for entry in batch if entry.key is not None]
    came = Outcome(
        lambda: world.apps[app].enqueue_many(
            said.kind,
            [entry.payload for entry in batch],
            **_arguments(world, said),
            id=ids or None,
            idempotency_key=keys or None,
        )
    )
    return _enqueued(world, app, came, said, entries)


def retry(world: ExactWorld, app: str, task: str, name: str) -> Outcome:
    """A clone, which has this name if there is one."""
    task_id = world.id_of(task)
    came = Outcome(lambda: world.apps[app].retry(task_id).id)
    world.model.serve(app)
    clone_id = came.value or MADE_UP
    world.agree(came, Outcome(lambda: world.model.retry(task_id, clone_id)))
    if came.refusal is None:
        world.name(name, clone_id)
    return came


def _without_name(entry: Given) -> Given:
    return {key: value for key, value in entry.items() if key != "name"}


def _arguments(world: ExactWorld, options: Options) -> Given:
    arguments: Given = {
        "queue": options.queue,
        "priority": options.priority,
        "group": options.group,
        "max_retries": options.max_retries,
        "max_recoveries": options.max_recoveries,
    }
    if options.delay is not None and options.run_at:
        now = datetime.fromtimestamp(world.model.utc / 1000, UTC)
        arguments["run_at"] = now + timedelta(milliseconds=options.delay)
    elif options.delay is not None:
        arguments["delay"] = options.delay / 1000
    return arguments


def _enqueued(
    world: ExactWorld, app: str, came: Outcome, options: Options, entries: Sequence[Given]
) -> Outcome:
    """The model takes over the ids that the queue made up, if it stored anything."""
    stored = came.refusal is None
    new: list[tuple[Task, str | None]] = []
    for n, given in enumerate(entries):
        entry = Entry(**_without_name(given))
        made = came.value[n] if stored else f"{MADE_UP} {n}"
        new.append((_task(world, options, replace(entry, id=entry.id or made)), entry.key))
    if entries:
        world.model.serve(app)
    world.agree(came, Outcome(lambda: world.model.enqueue(new)))
    for given, task_id in zip(entries, came.value if stored else (), strict=False):
        if task_id not in world.names:
            world.name(given.get("name") or task_id, task_id)
    return came


def _task(world: ExactWorld, options: Options, entry: Entry) -> Task:
    default = world.model.rules.max_retries
    return Task(
        entry.id or "",
        kind=options.kind,
        payload=entry.payload,
        queue=options.queue,
        priority=options.priority,
        group=options.group,
        max_retries=default if options.max_retries is None else options.max_retries,
        max_recoveries=options.max_recoveries,
        parked="delay" if options.delay else None,
        not_before=world.model.utc + options.delay if options.delay else None,
    )


# Taking work out


def claim(world: ExactWorld, app: str, **wish: Any) -> str:
    """Claim, or prefetch if `begun` is False."""
    handed = hand_out(world, app, Wish(**wish))
    return ", ".join(_lease_name(world, one) for one in handed) or "nothing"


def hand_out(world: ExactWorld, app: str, wish: Wish) -> list[Held]:
    """The leases of a claim; the queue and the model must hand out the same."""
    verb = world.apps[app].claim if wish.begun else world.apps[app].prefetch
    seconds = None if wish.lease_ms is None else wish.lease_ms / 1000
    leases = verb(wish.worker, limit=wish.limit, lease=seconds, **_narrowed(wish))
    expected = world.model.claim(app, wish)
    same(
        "the leases",
        [(one.task_id, one.token, one.attempt, one.payload, one.lease_ms) for one in leases],
        [
            (one.task.id, one.token, one.task.attempt, one.task.payload, one.length_ms)
            for one in expected
        ],
    )
    handed = [Held(app, *pair) for pair in zip(leases, expected, strict=True)]
    world.held |= {_lease_name(world, one): one for one in handed}
    return handed


def _lease_name(world: ExactWorld, held: Held) -> str:
    return f"{world.names[held.expected.task.id]} token {held.expected.token}"


def take(world: ExactWorld, app: str, **wish: Any) -> Outcome:
    """At most once."""
    wanted = Wish(**wish)
    return world.serving(
        app,
        lambda: [one.id for one in world.apps[app].take(wanted.limit, **_narrowed(wanted))],
        lambda: world.model.take(wanted),
    )


def _narrowed(wish: Wish) -> Given:
    return {"queue": wish.queues, "kinds": wish.kinds, "group": wish.group}


# By a lease


def by_lease(
    real: Callable[..., Any], expected: Callable[..., Any]
) -> Callable[..., Outcome | None]:
    """A call that names a lease; one that a shortened script never handed out does nothing."""

    def call(world: ExactWorld, app: str, lease: str, **args: Any) -> Outcome | None:
        held = world.held.get(lease)
        if held is None:
            return None
        return world.both(
            lambda: real(held.real, **args), lambda: expected(world.model, held.expected, **args)
        )

    return call


def complete(world: ExactWorld, app: str, lease: str, named: str) -> Outcome | None:
    """With one of a few values."""
    held = world.held.get(lease)
    return None if held is None else complete_held(world, held, VALUES[named])


def complete_held(world: ExactWorld, held: Held, result: Any) -> Outcome:
    """Count what is accepted, to be held against what is stored in the end."""
    came = world.both(
        lambda: held.real.complete(result), lambda: world.model.complete(held.expected, result)
    )
    task = held.expected.task
    world.accepted[task] = world.accepted.get(task, 0) + (came.value is True)
    return came


def complete_many(world: ExactWorld, app: str, leases: list[str]) -> Outcome | None:
    """Good leases and stale ones, also two on one task, also one twice."""
    batch = [world.held[name] for name in leases if name in world.held]
    if not batch:
        return None
    results = [f"result {n}" for n in range(len(batch))]
    was_settled = {one: one.expected.settled for one in batch}
    came = world.both(
        lambda: world.apps[app].complete_many(
            [(one.real, result) for one, result in zip(batch, results, strict=True)]
        ),
        lambda: world.model.complete_many(
            app, [(one.expected, result) for one, result in zip(batch, results, strict=True)]
        ),
    )
    for one, was in was_settled.items():
        task = one.expected.task
        world.accepted[task] = world.accepted.get(task, 0) + (one.expected.settled and not was)
    return came


def fail(
    world: ExactWorld, app: str, lease: str, retry: bool, delay: int | None = None
) -> Outcome | None:
    """Without a delay of its own the wait is random within what the model knows."""
    held = world.held.get(lease)
    if held is None:
        return None
    came = world.both(
        lambda: held.real.fail("broken", retry, _seconds(delay)),
        lambda: world.model.fail(held.expected, retry, delay),
    )
    task = held.expected.task
    if came.value and delay is None and task.parked == "delay":
        task.not_before = world.backed_off(task.id, task.not_before)
    return came


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


# By anybody


def by_word(real: str, expected: Callable[..., Any], *words: str) -> Callable[..., Outcome]:
    """A call that names a task and needs no lease."""

    def call(world: ExactWorld, app: str, task: str) -> Outcome:
        task_id = world.id_of(task)

        def really() -> Any:
            came = getattr(world.apps[app], real)(task_id, *words)
            return came if isinstance(came, bool) else came.id

        return world.serving(app, really, lambda: expected(world.model, task_id))

    return call


unpark_task = by_word("unpark", lambda model, task_id: model.park(task_id, None))


def pause(world: ExactWorld, app: str, queue: str, paused: bool) -> Outcome:
    """Or unpause."""
    verb = world.apps[app].pause if paused else world.apps[app].unpause
    return world.serving(app, lambda: verb(queue), lambda: world.model.pause(queue, paused))


def flush(world: ExactWorld, app: str) -> Outcome:
    """Move the log, as far as nobody reads it."""
    return world.serving(app, lambda: world.apps[app].flush_wal("passive").busy, lambda: False)


def close(world: ExactWorld, app: str) -> None:
    """Leave in peace."""
    world.apps[app].close()
    world.model.close(app)


def leave(world: ExactWorld, app: str) -> None:
    """Be driven out by an error."""
    world.apps[app].__exit__(ValueError, ValueError("a bug"), None)
    world.model.close(app, in_error=True)


CALLS: dict[str, Callable[..., Any]] = {
    "enqueue": enqueue,
    "enqueue_many": enqueue_many,
    "retry": retry,
    "claim": claim,
    "take": take,
    "start": by_lease(lambda real: real.start(), lambda model, lease: model.begin(lease)),
    "renew": by_lease(lambda real: real.renew(), lambda model, lease: model.renew(lease)),
    "checkpoint": by_lease(
        lambda real, type: real.checkpoint(type, {"so": "far"}).sequence_number,
        lambda model, lease, type: model.checkpoint(lease, type),
    ),
    "complete": complete,
    "complete_many": complete_many,
    "fail": fail,
    "release": by_lease(
        lambda real, delay: real.release(_seconds(delay)),
        lambda model, lease, delay: model.release(lease, delay),
    ),
    "park": by_lease(
        lambda real, reason, delay: real.park(reason, _seconds(delay)),
        lambda model, lease, reason, delay: model.park_held(lease, reason, delay),
    ),
    "cancel": by_word("cancel", lambda model, task_id: model.cancel(task_id)),
    "fail_task": by_word("fail", lambda model, task_id: model.fail_by_word(task_id), "unwanted"),
    "park_task": by_word("park", lambda model, task_id: model.park(task_id, "hold")),
    "unpark_task": unpark_task,
    "pause": pause,
    "heal": heal,
    "recover": recover,
    "reclaim_stale": reclaim_stale,
    "flush": flush,
    "close": close,
    "leave": leave,
}
