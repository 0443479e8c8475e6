"""The stage: fork servers that answer, fail, hang and fall, and what their forks leave behind."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from outlast_lab.stage.fork_server import ForkServer, Lost, Raised
from outlast_lab.stage.pool import Order, Pool
from outlast_lab.stage.wire import ANSWERS, SAYS, Wire, serve
from tests.support.children import Child

LONG = 3_000_000


def serves(wire: Wire) -> None:
    """What the fork servers of these tests do."""

    def dies() -> None:
        os.write(2, b"its last words\n")
        os.kill(os.getpid(), signal.SIGKILL)

    def says(count: int) -> str:
        for number in range(count):
            wire.send([SAYS, number])
        return "said"

    verbs: dict[str, Callable[..., Any]] = {
        "pid": os.getpid,
        "repeats": lambda text, times: text * times,
        "fails": partial([].pop),
        "says": says,
        "dies": dies,
        "writes": lambda descriptor, text: os.write(descriptor, text.encode()),
        "hangs": partial(time.sleep, 600),
        "prints": lambda: print("x" * LONG),
    }
    serve(wire, verbs.__getitem__)


def a_server() -> ForkServer:
    return ForkServer(f"{__name__}:{serves.__name__}")


@pytest.fixture
def server() -> Iterator[ForkServer]:
    server = a_server()
    yield server
    server.kill()
    server.close()


def test_it_answers_whatever_the_length(server: ForkServer) -> None:
    assert server.ask("repeats", "ab", times=LONG) == "ab" * LONG
    assert server.ask("repeats", "ab" * LONG, 1) == "ab" * LONG
    assert server.ask("pid") == server.pid


def test_what_it_prints_comes_between_no_answers(server: ForkServer) -> None:
    assert server.ask("prints") is None
    assert server.ask("repeats", "a", 2) == "aa"


def test_what_it_says_before_its_answer_is_heard_in_order(server: ForkServer) -> None:
    server.tell("says", 3)
    heard = [server.hear() for _ in range(4)]
    assert heard == [(SAYS, 0), (SAYS, 1), (SAYS, 2), (ANSWERS, "said")]


def test_descriptors_come_with_a_request(server: ForkServer) -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as pipe, open(writing, "wb") as other:
        assert server.ask("writes", "by it", descriptors=[other.fileno()]) == 5
        assert os.read(pipe.fileno(), 100) == b"by it"


def test_what_fails_is_told_and_it_goes_on(server: ForkServer) -> None:
    with pytest.raises(Raised, match="IndexError: pop from empty list"):
        server.ask("fails")
    with pytest.raises(Raised, match="KeyError"):
        server.ask("no such verb")
    assert server.ask("pid") == server.pid


def test_one_that_falls_is_told_with_its_last_words(server: ForkServer) -> None:
    with pytest.raises(Lost, match="its last words"):
        server.ask("dies")
    with pytest.raises(Lost):
        server.ask("pid")


def test_one_that_hangs_is_ended(server: ForkServer) -> None:
    server.tell("hangs")
    server.close(goodbye_seconds=0.2)
    assert not os.path.exists(f"/proc/{server.pid}")


def test_it_hears_no_interrupt_from_the_keyboard(server: ForkServer) -> None:
    assert os.getsid(server.pid) == server.pid != os.getsid(0)


def test_a_pool_asks_for_no_order_early_and_answers_all() -> None:
    drawn: list[int] = []

    def orders() -> Iterator[Order]:
        for number in range(20):
            drawn.append(number)
            yield Order("repeats", {"text": str(number), "times": 2})

    with Pool(a_server() for _ in range(2)) as pool:
        answers = pool.do(orders())
        first = next(answers)
        assert len(drawn) <= 4
        told = {order.arguments["text"]: answer for order, answer in [first, *answers]}
    assert told == {str(number): str(number) * 2 for number in range(20)}


def test_a_pool_that_is_interrupted_waits_for_nobody() -> None:
    server = a_server()

    def interrupted() -> None:
        with Pool([server]) as pool:
            pool._threads.submit(pool._do, Order("hangs", {}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not os.path.exists(f"/proc/{server.pid}")


def _forks(folder: str) -> None:
    import os
    import time
    from functools import partial
    from pathlib import Path

    from outlast_lab.stage.forks import in_a_fork
    from tests.support.childside import say

    reading, writing = os.pipe()

    def raises() -> None:
        raise ValueError("of its own")

    def leaves_somebody() -> None:
        """Who stays as long as this process does, with all that was open."""
        if os.fork() == 0:
            os.close(writing)
            os.read(reading, 1)

    for act in (Path(folder, "done").touch, raises, leaves_somebody, partial(os._exit, 3)):
        say(in_a_fork(act, 60))
    say(in_a_fork(partial(time.sleep, 600), 1))


def test_a_fork_ends_by_sigkill_when_it_is_done_and_tells_what_it_raised(tmp_path: Path) -> None:
    with Child(_forks, tmp_path) as child:
        done, raised, alone, left, late = child.hear_all()
        assert child.wait() == 0, child.error()
    assert (tmp_path / "done").exists()
    assert done == alone == [signal.SIGKILL, None]
    assert raised[0] == signal.SIGKILL
    assert raised[1].rstrip().endswith("ValueError: of its own")
    assert left == [3 << 8, None]
    assert late == [signal.SIGALRM, None]
