"""What is kept of an error, and what must never be: values in the store, payloads in the logs."""

import logging

import pytest

from outlast import Outlast, PermanentError
from outlast.tasks.execute import MAX_FRAMES, MAX_MESSAGE_CHARACTERS
from tests.worker.conftest import MakeApp

SECRET = "hunter2-of-the-payload"


def error_of(app: Outlast, task_id: str) -> str:
    app.worker().run(until_empty=True)
    error = app.get(task_id).error
    assert error is not None
    return error


def test_an_error_holds_type_message_and_frames(live: Outlast) -> None:
    @live.task(max_retries=0)
    def outer(password: str) -> None:
        inner(password)

    def inner(password: str) -> None:
        copied = password * 2
        raise LookupError(f"nothing of length {len(copied)} found")

    first, *frames = error_of(live, outer.enqueue(SECRET).id).splitlines()
    assert first == f"LookupError: nothing of length {2 * len(SECRET)} found"
    names = [frame.split("(")[0].strip() for frame in frames]
    assert names == ["in outer", "in inner"]
    assert all("test_telling_of_errors.py:" in frame for frame in frames)


def test_an_error_holds_no_local_value_and_no_line_of_source(live: Outlast) -> None:
    @live.task(max_retries=0)
    def leaks(password: str) -> None:
        key = f"sk-{password}"
        raise ValueError("wrong" if key else "a line of source")

    error = error_of(live, leaks.enqueue(SECRET).id)
    assert SECRET not in error
    assert "sk-" not in error
    assert "a line of source" not in error
    assert "raise" not in error


def test_a_long_message_is_capped_and_says_so(live: Outlast) -> None:
    @live.task(max_retries=0)
    def talks() -> None:
        raise ValueError("x" * 1_000_000)

    error = error_of(live, talks.enqueue().id)
    assert len(error) < MAX_MESSAGE_CHARACTERS + 500
    assert "(1000000 characters in all)" in error


def test_of_a_deep_stack_the_last_frames_are_kept(live: Outlast) -> None:
    @live.task(max_retries=0)
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError("at the bottom")
        deep(n - 1)

    frames = error_of(live, deep.enqueue(100).id).splitlines()[1:]
    assert 0 < len(frames) <= MAX_FRAMES


def test_half_a_character_in_a_message_does_not_keep_it_from_being_stored(live: Outlast) -> None:
    @live.task(max_retries=0)
    def broken_text() -> None:
        raise ValueError("name \ud800 and \0")

    assert error_of(live, broken_text.enqueue().id).startswith("ValueError: name \\ud800 and ")


@pytest.mark.parametrize("store_process", ["process", "thread"])
def test_logs_hold_no_payload_no_result_and_no_message_of_an_error(
    make_live: MakeApp, make_app: MakeApp, store_process: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever may read the logs of a program may not be allowed to read its data."""
    app = (make_live if store_process == "process" else make_app)(retry_backoff_seconds=0.01)

    @app.task
    def returns(secret: str) -> str:
        return secret

    @app.task(max_retries=0)
    def raises(secret: str) -> None:
        raise ValueError(secret)

    @app.task(max_retries=0)
    async def raises_for_good(secret: str) -> None:
        raise PermanentError(secret)

    @app.task
    def unstorable(secret: str) -> object:
        return {secret: object()}

    with caplog.at_level(logging.DEBUG):
        tasks = [
            function.enqueue(SECRET) for function in (returns, raises, raises_for_good, unstorable)
        ]
        app.enqueue("returns", {"secret": SECRET})
        tally = app.worker().run(until_empty=True)
    assert (tally.completed, tally.failed) == (2, 3)
    assert SECRET in str(app.get(tasks[1].id).error)
    assert SECRET not in caplog.text
    assert not [record for record in caplog.records if SECRET in repr(record.args)]


def test_the_context_names_its_task_and_not_its_payload(live: Outlast) -> None:
    from outlast.tasks.context import Context

    @live.task
    def shows(ctx: Context, secret: str) -> str:
        return repr(ctx)

    task = shows.using(id="t1").enqueue(SECRET)
    live.worker().run(until_empty=True)
    assert live.get(task.id).result == "<Context of task t1 (shows), attempt 1>"
