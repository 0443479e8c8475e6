"""Which tasks a worker takes, and in which order."""

import pytest

from outlast import InvalidInput, Outlast, Status
from tests.worker.shift import Shift


def register(app: Outlast, *kinds: str) -> list[str]:
    """Functions of these kinds, which note the order they ran in."""
    ran: list[str] = []

    for kind in kinds:

        @app.task(name=kind)
        def work(label: str) -> None:
            ran.append(label)

    return ran


def test_a_kind_nobody_knows_stays_pending_uncharged_and_why_says_so(live: Outlast) -> None:
    ran = register(live, "known")
    live.enqueue("unknown", {"label": "x"}, id="u", priority=9)
    with Shift(live.worker(name="w")):
        live.enqueue("known", {"label": "k"}).wait(30)
        task = live.get("u")
        assert (task.status, task.attempt, task.retry_count) == (Status.PENDING, 0, 0)
        said = "pending: no live worker serves kind `unknown` on queue `default`"
        assert live.why("u").startswith(said)
    assert ran == ["k"]
    assert live.history("u") == []


def test_queues_are_served_in_their_order(live: Outlast) -> None:
    ran = register(live, "work")
    for queue in ("third", "second", "first", "unserved"):
        for n in range(2):
            live.enqueue("work", {"label": f"{queue} {n}"}, queue=queue, priority=-n)
    worker = live.worker(queues=["first", "second", "third"], concurrency=1)
    assert worker.run(until_empty=True).completed == 6
    assert ran == [f"{queue} {n}" for queue in ("first", "second", "third") for n in range(2)]
    assert live.counts(queue="unserved")["pending"] == 2


def test_a_worker_may_serve_some_of_the_kinds_only(live: Outlast) -> None:
    ran = register(live, "a", "b", "c")
    for kind in "abc":
        live.enqueue(kind, {"label": kind})
    assert live.worker(kinds=["a", "c"]).run(until_empty=True).completed == 2
    assert sorted(ran) == ["a", "c"]
    assert live.counts()["pending"] == 1


def test_what_a_worker_serves_can_be_seen(live: Outlast) -> None:
    register(live, "a", "b")
    with Shift(live.worker(name="w", queues=["q", "r"], kinds=["b"], concurrency=3)):
        live.enqueue("b", {"label": "b"}, queue="r").wait(30)
        (worker,) = live.workers()
        assert worker.name == "w"
        assert worker.serves is not None
        assert (worker.serves.queues, worker.serves.kinds) == (("q", "r"), ("b",))
        assert worker.serves.concurrency == 3


def test_a_worker_without_functions_is_refused_in_one_sentence(live: Outlast) -> None:
    with pytest.raises(InvalidInput, match="no function is registered; decorate one"):
        live.worker().run()
    register(live, "known")
    with pytest.raises(InvalidInput, match="no function is registered for kind 'other'"):
        live.worker(kinds=["other"]).run()


def test_a_function_registered_after_the_worker_was_made_is_served(live: Outlast) -> None:
    worker = live.worker()
    ran = register(live, "late")
    live.enqueue("late", {"label": "x"})
    assert worker.run(until_empty=True).completed == 1
    assert ran == ["x"]


def test_two_hundred_kinds_are_served_and_one_more_is_refused(live: Outlast) -> None:
    kinds = [f"kind-{n}" for n in range(200)]
    ran = register(live, *kinds)
    for kind in (kinds[0], kinds[99], kinds[199]):
        live.enqueue(kind, {"label": kind})
    assert live.worker().run(until_empty=True).completed == 3
    assert sorted(ran) == sorted([kinds[0], kinds[99], kinds[199]])
    register(live, "one too many")
    with pytest.raises(InvalidInput, match="at most 200 kinds; name those"):
        live.worker().run()
    assert live.worker(kinds=kinds).run(until_empty=True).completed == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"queues": []}, "queues must name at least one queue"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"concurrency": 1001}, "concurrency must be"),
        ({"prefetch": 2001}, "prefetch must be"),
        ({"name": ""}, "name"),
        ({"shutdown": "soon"}, "shutdown"),
    ],
    ids=str,
)
def test_a_worker_that_makes_no_sense_is_refused(
    live: Outlast, options: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        live.worker(**options)  # type: ignore[arg-type]


def test_a_worker_serves_the_queues_that_its_functions_name(app: Outlast) -> None:
    done: list[str] = []

    @app.task(queue="mail")
    def mail() -> None:
        done.append("mail")

    @app.task
    def plain() -> None:
        done.append("plain")

    mail.enqueue()
    plain.enqueue()
    app.enqueue("mail", queue="default")
    app.enqueue("plain", queue="elsewhere")
    worker = app.worker()
    assert worker.queues == ("default", "mail")
    worker.run(until_empty=True)
    assert sorted(done) == ["mail", "mail", "plain"]
    assert app.counts()["pending"] == 1
    assert app.worker(queues="elsewhere").queues == ("elsewhere",)
