"""The processes of `lab zombie` and `lab clock`: gone, loud, interrupted."""

import os
import signal
from collections.abc import Iterator

import pytest

from outlast_lab.actors import Company, NoAnswer, played_at_once, stopped

LOUD = """
import sys
from outlast_lab.acting import Actor
Actor.shouts = lambda self: sys.stderr.write("x" * 300_000)
"""


@pytest.fixture
def company() -> Iterator[Company]:
    with Company(prelude=LOUD) as company:
        yield company


def test_an_actor_that_is_gone_gives_no_answer_and_ends_nothing_else(company: Company) -> None:
    actor = company.actor()
    actor.kill()
    with pytest.raises(NoAnswer, match="is gone"):
        actor.ask("clocks")
    with pytest.raises(NoAnswer, match="is gone"):
        actor.stop()
    with pytest.raises(NoAnswer, match="is gone"):
        actor.resume()
    with pytest.raises(NoAnswer, match="is gone"), stopped(actor.pid):
        pass


def test_an_actor_may_say_more_than_a_pipe_holds(company: Company) -> None:
    actor = company.actor()
    actor.tell("shouts")
    assert actor.answer(within_seconds=10) == 300_000


def test_an_interrupt_from_the_keyboard_does_not_reach_the_actors(company: Company) -> None:
    assert os.getsid(company.actor().pid) != os.getsid(0)


def test_an_interrupt_ends_what_is_under_way_at_once(company: Company) -> None:
    """A case that waits for an answer for long hears that there will be none."""
    heard: list[str] = []

    def play(number: int, case: str) -> None:
        if case == "interrupts":
            raise KeyboardInterrupt
        actor = company.actor()
        actor.send_signal(signal.SIGSTOP)
        try:
            actor.ask("clocks")
        except NoAnswer as error:
            heard.append(str(error))

    with pytest.raises(KeyboardInterrupt):
        list(played_at_once(["interrupts", "waits"], play, company.abandon))
    assert company.is_abandoned
    assert all("within" not in text for text in heard)
