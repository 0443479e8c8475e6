"""What a lost task was at when its holder died: the last that it told the store of it."""

import pytest

from outlast import Outlast
from outlast.store.ops.recovery.loss_causes import MOST_LOOKED_INTO
from tests.healing.stage import Holder

JUDGED = "(its lock is free)"


def lost(app: Outlast, *told: tuple[str, str, str | None, dict[str, str]]) -> None:
    """All tasks are claimed by a process that says this of some of them and is killed."""
    with Holder(app.path, "w") as holder:
        holder.claims(1000, lease="1h")
        for verb, task_id, word, options in told:
            words = [] if word is None else [word, {}]
            assert holder.asks(verb, task_id, *words, **options) is not False
        holder.kill()
    app.heal()


def said_of(app: Outlast, task_id: str) -> str:
    """What follows upon how its worker died."""
    _, judged, rest = str(app.get(task_id).error).partition(JUDGED)
    assert judged
    return rest


def test_the_error_of_a_lost_task_names_its_stage_and_its_newest_checkpoint(app: Outlast) -> None:
    """Guards the last step in the sentence, each task's own where many were lost together."""
    for task_id in ("a", "b", "c", "d"):
        app.enqueue("work", id=task_id)
    lost(
        app,
        ("checkpoint", "a", "iteration_start", {}),
        ("checkpoint", "a", "llm_response", {}),
        ("renew", "b", None, {"stage": "testing"}),
        ("renew", "c", None, {"stage": "testing"}),
        ("checkpoint", "c", "tool_executed", {}),
    )
    assert {one: said_of(app, one) for one in "abcd"} == {
        "a": "; last step: checkpoint 2 (llm_response)",
        "b": "; last step: stage testing",
        "c": "; last step: stage testing, checkpoint 1 (tool_executed)",
        "d": "",
    }


def test_a_checkpoint_of_an_earlier_attempt_is_told_as_such(app: Outlast) -> None:
    """Guards an attempt that died before its first checkpoint: it was not at another's step."""
    app.enqueue("work", id="t")
    lost(app, ("checkpoint", "t", "iteration_end", {}))
    lost(app)
    assert said_of(app, "t") == "; last step: checkpoint 1 (iteration_end) of attempt 1"


def test_a_quarantined_task_is_told_with_its_last_step(app: Outlast) -> None:
    """Guards the sentence that a person reads of a task that is not tried again."""
    app.enqueue("work", id="t")
    for _ in range(3):
        lost(app)
    lost(app, ("checkpoint", "t", "iteration_start", {}))
    task = app.get("t")
    assert task.status == "failed"
    assert str(task.error).startswith("died 4 of 4 times in kind `work`: ")
    assert str(task.error).endswith("; last step: checkpoint 1 (iteration_start)")


@pytest.mark.parametrize("more", [0, 1])
def test_beyond_a_hundred_nobody_looks_into_each(app: Outlast, more: int) -> None:
    """Guards the speed of taking back a million: what is alike is moved as one, by one sentence."""
    ids = app.enqueue_many("work", [None] * (MOST_LOOKED_INTO + more))
    lost(app, ("checkpoint", ids[0], "tool_executed", {}))
    sentences = {said_of(app, ids[0]), said_of(app, ids[-1])}
    with_step = {"", "; last step: checkpoint 1 (tool_executed)"}
    assert sentences == ({""} if more else with_step)
