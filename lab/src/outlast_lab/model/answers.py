"""What a call was told, against what it was seen to do in the store while it was under way."""

from dataclasses import dataclass, field
from typing import Any

from outlast_lab.model.following import HANDING_OUT, Following
from outlast_lab.model.observed import Ongoing
from outlast_lab.model.script import Broken

# What a caller may hear while nothing is wrong; and of a store error, only that it was closed.
REFUSALS = ("LeaseLost", "TaskNotFound", "InvalidTransition", "IdempotencyConflict", "InvalidInput")
CLOSED = "closed"

MENDING = ("heal", "recover", "reclaim_stale")
SETTLING = ("complete", "fail", "release", "park")


@dataclass(frozen=True)
class Answer:
    """The outcome of a call, in the words of a history, and what it said."""

    outcome: str
    value: Any = None
    error: str = ""
    leases: frozenset[tuple[str, int]] = field(default_factory=frozenset)
    words: str = ""

    def __str__(self) -> str:
        """For a script."""
        return self.words


def check_answer(following: Following, call: Ongoing) -> None:
    """Raises Broken if a call was told something else than what it did."""
    answer = call.answer
    if answer is None:
        return
    kind = answer.error.partition(":")[0]
    if answer.outcome != "done" and kind not in REFUSALS and CLOSED not in answer.error:
        raise Broken(f"{call.verb} of {call.worker} was not to fail: {answer.error}")
    if call.verb in HANDING_OUT:
        _check_claim(following, call, answer)
    elif call.verb in SETTLING:
        _check_settle(following, call, answer)
    elif call.verb in ("renew", "checkpoint") and answer.error.startswith("LeaseLost"):
        _check_loss(following, call)
    elif call.verb in ("cancel", "fail_task"):
        _check_decision(call, answer)
    elif call.verb == "take" and answer.outcome == "done" and set(answer.value) != call.taken:
        raise Broken(f"take answered {sorted(answer.value)} and removed {sorted(call.taken)}")
    elif call.verb in MENDING and answer.outcome == "done":
        _check_mending(call, answer)
    elif call.verb in ("enqueue", "enqueue_many"):
        _check_enqueue(following, call, answer)


def _check_claim(following: Following, call: Ongoing, answer: Answer) -> None:
    """What was handed out is what was moved; after a refusal nothing is left with the caller."""
    if answer.outcome == "done" and answer.leases != call.gained:
        raise Broken(
            f"{call.worker} was handed {sorted(answer.leases)} and got {sorted(call.gained)}"
        )
    if answer.outcome == "refused":
        kept = [lease for lease in call.gained if following.is_current(lease)]
        if kept and not call.opening.is_closing:
            raise Broken(f"{call.worker} was refused ({answer.error}) and holds {kept}")


def _check_mending(call: Ongoing, answer: Answer) -> None:
    """It tells how many tasks it moved; what an opening before it moved need not be counted, and
    one that comes while another opens may count what that opening moved."""
    most = max(call.healed, call.opening.healed if call.opens else 0)
    if answer.value > most or (answer.value < call.healed and not call.opens):
        raise Broken(f"{call.verb} answered {answer.value} and moved {call.healed} tasks")


def _check_settle(following: Following, call: Ongoing, answer: Answer) -> None:
    did = call.leases <= call.settled
    if answer.outcome == "done" and answer.value is True and not did:
        raise Broken(f"{call.verb} of {sorted(call.leases)} was acknowledged and not done")
    if answer.outcome == "refused" and did:
        raise Broken(f"{call.verb} of {sorted(call.leases)} was refused and done: {answer.error}")
    if answer.error.startswith("LeaseLost"):
        _check_loss(following, call)


def _check_loss(following: Following, call: Ongoing) -> None:
    """Nobody is told to have lost what it has; unless its object is being closed."""
    for lease in call.leases:
        holder = following.holders[lease]
        if following.is_current(lease) and not holder.opening.is_closing:
            raise Broken(f"{call.verb} says that {lease} is lost, and it is not")


def _check_decision(call: Ongoing, answer: Answer) -> None:
    if (answer.outcome == "done" and answer.value is True) != bool(call.settled):
        raise Broken(
            f"{call.verb} of {sorted(call.task_ids)} answered {answer.value or answer.error} and"
            f" {'did it' if call.settled else 'did nothing'}"
        )


def _check_enqueue(following: Following, call: Ongoing, answer: Answer) -> None:
    """All are there, unless somebody took them; of a refused batch there is nothing."""
    if answer.outcome == "done" and "keys" not in call.args:
        # A key may stand for a task that was there before, which is then the answer.
        is_found = "key" in call.args and not call.task_ids & set(answer.value)
        missing = frozenset() if is_found else call.task_ids - call.made
        if missing:
            raise Broken(f"{call.verb} of {sorted(missing)} was acknowledged and not done")
    if answer.outcome == "refused" and call.made:
        raise Broken(f"{call.verb} was refused ({answer.error}) and made {sorted(call.made)}")
