"""Misuse: somebody with a SQL prompt, by the standard library's sqlite3 in another process."""

from collections.abc import Callable, Iterator

from outlast_lab.experiments.misuse.scene import Case, Scene

# Each statement sets whatever the new state wants, so that the move alone is on trial.
STATEMENTS = {
    "a completed task becomes pending": (
        "UPDATE tasks SET status = 'pending', completed_at = NULL WHERE id = 'completed'"
    ),
    "a completed task becomes running": """
        UPDATE tasks SET status = 'running', worker_id = 'me', token = 9, attempt = 1,
            holder = (SELECT holder FROM tasks WHERE id = 'held'), lease_acquired_at = 1,
            lease_expires_at = 9999999999999, lease_expires_mono_ms = 9999999999999,
            heartbeat_at = 1, started_at = 1, completed_at = NULL
        WHERE id = 'completed'""",
    "a completed task becomes failed": "UPDATE tasks SET status = 'failed' WHERE id = 'completed'",
    "a cancelled task becomes completed": (
        "UPDATE tasks SET status = 'completed' WHERE id = 'cancelled'"
    ),
    "a pending task becomes completed": (
        "UPDATE tasks SET status = 'completed', completed_at = 1 WHERE id = 'waiting'"
    ),
    "a task gets a status that there is not": "UPDATE tasks SET status = 'done' WHERE id = 'held'",
    "a task runs without a holder": (
        "UPDATE tasks SET holder = NULL, worker_id = NULL WHERE id = 'held'"
    ),
    "a waiting task has a holder": """
        UPDATE tasks SET worker_id = 'me', holder = (SELECT holder FROM tasks WHERE id = 'held'),
            lease_acquired_at = 1, lease_expires_at = 9999999999999,
            lease_expires_mono_ms = 9999999999999, heartbeat_at = 1, started_at = 1
        WHERE id = 'waiting'""",
    "a task ends and keeps its lease": (
        "UPDATE tasks SET status = 'completed', completed_at = 1 WHERE id = 'held'"
    ),
    "a second row of a task runs": (
        "INSERT INTO tasks (id, status, queue, kind, created_at, state_changed_at, payload_sum)"
        " VALUES ('held', 'pending', 'default', 'work', 1, 1, 0)"
    ),
    "more failures than there may be": (
        "UPDATE tasks SET retry_count = max_retries + 1 WHERE id = 'waiting'"
    ),
    "more crashes than there may be": (
        "UPDATE tasks SET recovery_count = 101 WHERE id = 'waiting'"
    ),
    "more crashes in a row than there were": (
        "UPDATE tasks SET crashes_in_row = recovery_count + 1 WHERE id = 'waiting'"
    ),
    "a transition is changed": "UPDATE transitions SET reason = 'released'",
    "a transition is removed": "DELETE FROM transitions",
    "a checkpoint is changed": "UPDATE task_checkpoints SET snapshot_data = '{}'",
    "a checkpoint is removed": "DELETE FROM task_checkpoints",
    "a checkpoint is replaced": (
        "INSERT OR REPLACE INTO task_checkpoints SELECT pos, id, task_seq, group_id,"
        " checkpoint_type, sequence_number, attempt, '{}', snapshot_sum, metadata, created_at"
        " FROM task_checkpoints"
    ),
    "an idempotency key gets a status that there is not": "UPDATE task_keys SET status = 'done'",
}


def refused(statement: str) -> Callable[[Scene], None]:
    """The database itself refuses, and nothing is changed."""

    def act(scene: Scene) -> None:
        with scene.neighbour() as other:
            witness = scene.witness()
            for task_id in ("completed", "held", "cancelled", "waiting"):
                witness.enqueue(task_id, idempotency_key=f"key of {task_id}")
            done, lease = scene.must_do(lambda: witness.claim(limit=2))
            witness.complete(done, "done")
            witness.checkpoint(lease, "iteration_end", {"n": 1})
            witness.cancel("cancelled")
            said = other.sql(statement)
            scene.must("IntegrityError" in str(said), f"was not refused: {said}")
            scene.must_do(lambda: witness.complete(lease, "done"))

    return act


def given_away(scene: Scene) -> None:
    """What no constraint can know: the token of a running task is raised by hand."""
    with scene.neighbour() as other:
        witness = scene.witness()
        scene.must_do(lambda: witness.enqueue("t"))
        (lease,) = scene.must_do(witness.claim)
        scene.must(other.sql("UPDATE tasks SET token = token + 1") == [], "it cannot be changed")
        for verb in (witness.renew, witness.release, witness.complete):
            scene.must_refuse("LeaseLost", lambda verb=verb: verb(lease))  # type: ignore[misc]
        scene.must(witness.app.get("t").status == "running", "a stale token ended the task")


def cases() -> Iterator[tuple[str, Case]]:
    """All of them by name."""
    for name, statement in STATEMENTS.items():
        must = "is refused by the database, and the holder goes on"
        yield f"by hand: {name}", Case(must, refused(statement))
    yield (
        "by hand: a token is raised",
        Case("fences the holder of the old token", given_away, "nothing"),
    )
