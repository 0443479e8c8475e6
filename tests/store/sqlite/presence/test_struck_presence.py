"""A signal's handler that uses the store while its own thread is at the books of who lives."""

from pathlib import Path

from tests.support.children import Child


def struck_at_every_line(database: str) -> None:
    """A signal comes once at each line of these modules that the main thread reaches."""
    import faulthandler
    import signal
    import sys
    from itertools import count
    from types import FrameType
    from typing import Any

    from outlast import Outlast, StoreError
    from outlast.store.sqlite.presence import exits, own, worker_lock_file
    from tests.support.childside import say

    app = Outlast(database)
    modules = {
        one.__file__: one.__name__.rpartition(".")[2] for one in (own, exits, worker_lock_file)
    }
    names, struck, refused = count(), set[tuple[str, int]](), list[str]()

    def handle(number: int, frame: Any) -> None:
        app.enqueue("from a handler")
        try:
            # A name of its own is registered by the committer.
            (lease,) = app.claim(f"handler {next(names)}")
        except StoreError as error:
            refused.append(str(error))
        else:
            lease.complete()
            app.heal()

    def strike(frame: FrameType, event: str, argument: Any) -> Any:
        place = frame.f_code.co_filename, frame.f_lineno
        if place[0] not in modules:
            return None
        if event == "line" and place not in struck:
            struck.add(place)
            signal.raise_signal(signal.SIGUSR1)
        return strike

    app.enqueue_many("work", range(5))
    signal.signal(signal.SIGUSR1, handle)
    # A thread that waits for itself is told of and ended, long before the test gives up.
    faulthandler.dump_traceback_later(30, exit=True)
    sys.settrace(strike)
    (lease,) = app.claim("w")
    app.heal()
    lease.complete()
    with app.lock("name"):
        pass
    sys.settrace(None)
    say([sorted({modules[name] for name, _ in struck}), sorted(set(refused))])
    app.close()


def test_a_signals_handler_may_claim_wherever_it_strikes(database: Path) -> None:
    """Guards against a thread that waits for itself, or for a committer that waits for it."""
    with Child(struck_at_every_line, database) as child:
        struck, refused = child.hear()
        assert struck == ["exits", "own", "worker_lock_file"]
        assert all("while this same thread" in one for one in refused)
        assert child.hear_all() == []
