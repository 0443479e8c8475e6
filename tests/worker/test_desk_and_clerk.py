"""Moments between a worker's desk and its clerk that no test could meet by waiting for them."""

import socket

from outlast import Outlast
from outlast.worker.messages import News, Report, Wire
from outlast.worker.store_process import Clerk


def test_tasks_on_their_way_to_a_worker_that_stops_are_put_back_unbegun(app: Outlast) -> None:
    ran: list[bool] = []

    @app.task
    def work() -> None:
        ran.append(True)

    work.enqueue()
    (lease,) = app.prefetch("w")
    session = app._handle.serve()
    desk = app.worker(name="w")._desk_for(session, ("work",), until_empty=False)
    desk._stops_at = 0.0
    desk._hand_on([lease.claimed], session.now().mono_ms)
    (released,) = desk._tasks.outbox
    assert released[2] == "release"
    assert not desk._tasks.open
    desk._close()
    assert ran == []


def test_a_clerk_beats_only_once_it_knows_what_is_held(app: Outlast) -> None:
    """Guards a new clerk's first beat from being taken for a renewal of what it was not told of."""

    @app.task
    def work() -> None: ...

    session = app._handle.serve()
    worker = app.worker(name="w")
    principal = session.store.principal("w", session.now())
    begin = worker._terms(session, ("work",), until_empty=False)
    begin.row, begin.incarnation = principal.row, principal.incarnation
    ours, theirs = socket.socketpair()
    with ours, theirs:
        desk_side = Wire(ours, News)
        clerk = Clerk(Wire(theirs, Report), session, begin, lambda: True)
        clerk._serve_once()
        assert desk_side.letters() == []
        desk_side.send(Report())
        assert clerk._take_in(clerk._wire.letters())
        clerk._serve_once()
        assert [news.beaten_mono_ms for news in desk_side.letters()] == [session.now().mono_ms]
