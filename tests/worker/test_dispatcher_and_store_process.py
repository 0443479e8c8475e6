"""Moments between dispatcher and store process that no test could meet by waiting for them."""

import socket

from outlast import Outlast
from outlast.worker.messages import News, Report, Wire
from outlast.worker.store_process import StoreProcess


def test_tasks_on_their_way_to_a_worker_that_stops_are_put_back_unbegun(app: Outlast) -> None:
    ran: list[bool] = []

    @app.task
    def work() -> None:
        ran.append(True)

    work.enqueue()
    (lease,) = app.prefetch("w")
    session = app._handle.serve()
    dispatcher = app.worker(name="w")._dispatcher_for(session, ("work",), until_empty=False)
    dispatcher._stops_at = 0.0
    dispatcher._hand_on([lease.claimed], session.now().mono_ms)
    (released,) = dispatcher._jobs.outbox
    assert released[2] == "release"
    assert not dispatcher._jobs.open
    dispatcher._close()
    assert ran == []


def test_a_store_process_beats_only_once_it_knows_what_is_held(app: Outlast) -> None:
    """Guards against a first beat that is taken for a renewal of what it was not told of."""

    @app.task
    def work() -> None: ...

    session = app._handle.serve()
    worker = app.worker(name="w")
    principal = session.store.workers.principal("w", session.now())
    begin = worker._terms(session, ("work",), until_empty=False)
    begin.row, begin.incarnation = principal.row, principal.incarnation
    ours, theirs = socket.socketpair()
    with ours, theirs:
        dispatcher_side = Wire(ours, News)
        store_process = StoreProcess(Wire(theirs, Report), session, begin, lambda: True)
        store_process._serve_once()
        assert dispatcher_side.messages() == []
        dispatcher_side.send(Report())
        assert store_process._take_in(store_process._wire.messages())
        store_process._serve_once()
        assert [news.beaten_mono_ms for news in dispatcher_side.messages()] == [
            session.now().mono_ms
        ]
