import inspect
from collections.abc import Callable
from typing import Any

import pytest

from outlast import InvalidInput, Outlast, Settings
from outlast.tasks.context import Context
from outlast.testing import ManualClock

NOTHING = {"pending": 0, "running": 0, "completed": 0, "failed": 0, "cancelled": 0}


def test_a_call_is_stored_under_the_functions_name_with_its_arguments_by_name(
    app: Outlast,
) -> None:
    @app.task
    def ingest(path: str, pages: int = 3, *, deep: bool = False) -> None: ...

    task = ingest.enqueue("a.pdf", deep=True)
    assert (task.kind, task.payload) == ("ingest", {"path": "a.pdf", "deep": True})
    assert app.get(task.id) == task
    assert app.functions["ingest"] is ingest


def test_a_call_and_an_enqueue_by_name_are_the_same_request(app: Outlast) -> None:
    @app.task
    def ingest(path: str, pages: int = 3) -> None: ...

    @app.task
    def tick() -> None: ...

    first = ingest.using(idempotency_key="k1").enqueue("a.pdf", 7)
    by_name = {"pages": 7, "path": "a.pdf"}
    assert app.enqueue("ingest", by_name, idempotency_key="k1").id == first.id
    ticked = tick.using(idempotency_key="k2").enqueue()
    assert app.enqueue("tick", idempotency_key="k2").id == ticked.id
    assert app.counts()["pending"] == 2


def test_a_plain_call_runs_the_plain_function_and_stores_nothing(app: Outlast) -> None:
    @app.task(name="mail.send")
    def send(ctx: Context | None, to: str) -> list[Any]:
        """Send a mail."""
        return [ctx, to]

    app.open()
    assert send(None, "ada") == [None, "ada"]
    assert app.counts() == NOTHING
    assert (send.__name__, send.__doc__) == ("send", "Send a mail.")
    assert list(inspect.signature(send).parameters) == ["ctx", "to"]
    assert "mail.send" in repr(send)


def test_a_function_gets_the_context_if_its_first_parameter_is_called_so(app: Outlast) -> None:
    @app.task
    def with_context(ctx: Context, path: str) -> None: ...

    @app.task
    def with_context_alone(ctx: Context, /) -> None: ...

    @app.task
    async def without(path: str) -> None: ...

    wants = [app.functions[kind].wants_context for kind in app.functions]
    assert wants == [True, True, False]
    assert [one.is_async for one in app.functions.values()] == [False, False, True]
    assert with_context.enqueue("a.pdf").payload == {"path": "a.pdf"}
    assert app.enqueue("with_context_alone").payload == {}
    with pytest.raises(InvalidInput, match="with_context\\(\\) takes no argument ctx"):
        app.enqueue("with_context", {"ctx": 1, "path": "a.pdf"})


def test_a_function_says_where_its_tasks_go_unless_the_caller_does(app: Outlast) -> None:
    @app.task(queue="gpu", priority=4, max_retries=9)
    def render(n: int) -> None: ...

    def facts(task: Any) -> tuple[str, int, int]:
        return task.queue, task.priority, task.max_retries

    (many_id,) = app.enqueue_many("render", [{"n": 1}])
    for task in (render.enqueue(1), app.enqueue("render", {"n": 1}), app.get(many_id)):
        assert facts(task) == ("gpu", 4, 9)
    other = {"queue": "cpu", "priority": 0, "max_retries": 0}
    (many_id,) = app.enqueue_many("render", [{"n": 1}], **other)  # type: ignore[arg-type]
    for task in (
        render.using(queue="cpu", priority=0, max_retries=0).enqueue(1),
        app.enqueue("render", {"n": 1}, queue="cpu", priority=0, max_retries=0),
        app.get(many_id),
    ):
        assert facts(task) == ("cpu", 0, 0)


def test_what_neither_says_comes_from_the_settings(make_app: Callable[..., Outlast]) -> None:
    app = make_app(max_retries=7)

    @app.task
    def render() -> None: ...

    task = render.enqueue()
    assert (task.queue, task.priority, task.max_retries) == ("default", 0, 7)
    other = app.enqueue("unregistered", queue=None, priority=None)
    assert (other.queue, other.priority, other.max_retries) == ("default", 0, 7)


def test_options_never_collide_with_arguments(app: Outlast, clock: ManualClock) -> None:
    @app.task
    def book(id: str, queue: str, delay: int, group: str) -> None: ...

    task = book.using(id="t1", queue="slow", delay="10m", group="g1").enqueue(
        "a", "b", 3, group="d"
    )
    assert (task.id, task.queue, task.group, task.parked) == ("t1", "slow", "g1", "delay")
    assert task.payload == {"id": "a", "queue": "b", "delay": 3, "group": "d"}
    clock.advance("10m")
    assert [lease.task_id for lease in app.claim("w", queue="slow")] == ["t1"]


def test_many_calls_are_tuples_dicts_or_single_arguments(app: Outlast) -> None:
    @app.task(queue="bulk")
    def add(a: Any, b: int = 0) -> None: ...

    ids = add.enqueue_many([1, "x", (1, 2), {"a": 3, "b": 4}, ((5,),), ({"a": 6},), [7]])
    assert [app.get(one).payload for one in ids] == [
        {"a": 1},
        {"a": "x"},
        {"a": 1, "b": 2},
        {"a": 3, "b": 4},
        {"a": [5]},
        {"a": {"a": 6}},
        {"a": [7]},
    ]
    assert app.counts("bulk")["pending"] == 7
    named = add.using(id=["one", "two"], queue="q").enqueue_many(n for n in (1, 2))
    assert named == ["one", "two"]


def test_one_wrong_call_of_many_is_named_and_nothing_is_stored(app: Outlast) -> None:
    app.open()

    @app.task
    def add(a: int, b: int = 0) -> None: ...

    with pytest.raises(InvalidInput, match=r"^call 2: argument b of add\(\) must be int"):
        add.enqueue_many([1, (2, 3), (4, "x"), 5])
    with pytest.raises(InvalidInput, match=r"^payload 1: add\(\) needs its argument a"):
        app.enqueue_many("add", [{"a": 1}, {"b": 1}])
    for wrong in ({"a": 1}, "12", 12):
        with pytest.raises(InvalidInput, match=r"^calls must be a list of calls"):
            add.enqueue_many(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="need exactly one entry"):
        add.using(id=["x"]).enqueue_many([1, 2])
    with pytest.raises(InvalidInput, match="id must be a non-empty text"):
        add.using(id=["x"]).enqueue(1)
    assert app.counts() == NOTHING


def test_chunks_may_be_asked_for(app: Outlast) -> None:
    @app.task
    def add(a: int) -> None: ...

    with pytest.raises(InvalidInput, match="pass chunked=True"):
        add.enqueue_many(range(100_001))
    with pytest.raises(InvalidInput, match="call 10001: ") as caught:
        add.enqueue_many([*range(10_001), "x"], chunked=True)
    assert caught.value.__notes__ == ["at least the first 10000 tasks are stored"]
    assert app.counts()["pending"] == 10_000


def test_a_wrong_call_is_refused_before_the_store_is_made(app: Outlast) -> None:
    @app.task
    def add(a: int) -> None: ...

    with pytest.raises(InvalidInput):
        add.enqueue("x")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        app.enqueue("add", {"a": "x"})
    assert not app.path.exists()


def _define_greet(app: Outlast, greeting: str) -> None:
    @app.task
    def greet() -> str:
        return greeting


def test_a_function_defined_anew_replaces_its_older_self(app: Outlast) -> None:
    _define_greet(app, "hello")
    _define_greet(app, "good day")
    assert app.functions["greet"]() == "good day"


def test_two_functions_of_one_kind_are_refused(app: Outlast) -> None:
    _define_greet(app, "hello")
    with pytest.raises(InvalidInput, match=r"would both run tasks of kind 'greet'; give one"):

        @app.task
        def greet() -> None: ...

    assert app.functions["greet"]() == "hello"

    @app.task(name="greet.politely")  # type: ignore[no-redef]
    def greet() -> None: ...

    assert set(app.functions) == {"greet", "greet.politely"}


def test_apps_do_not_share_their_functions(app: Outlast, tmp_path: Any, clock: ManualClock) -> None:
    _define_greet(app, "hello")
    with Outlast(tmp_path / "other.db", settings=Settings(), clock=clock) as other:
        assert dict(other.functions) == {}
        assert other.enqueue("greet", [1]).payload == [1]


def test_an_enqueue_by_an_unhashable_kind_is_refused_as_ever(app: Outlast) -> None:
    _define_greet(app, "hello")
    with pytest.raises(InvalidInput, match="kind must be a non-empty text"):
        app.enqueue(["greet"])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="kind must be a non-empty text"):
        app.enqueue_many(["greet"], [])  # type: ignore[arg-type]


def test_a_retried_task_keeps_what_it_was_given(app: Outlast) -> None:
    @app.task(queue="gpu")
    def render(n: int) -> None: ...

    task = render.using(queue="cpu", priority=2).enqueue(1)
    app.cancel(task.id)
    again = app.retry(task.id)
    assert (again.queue, again.priority, again.payload) == ("cpu", 2, {"n": 1})
