"""One rule for orphans: whoever finds them, start-up, detector, claim or a call, does the same."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.maintenance.loop import MaintenanceLoop
from outlast.testing import ManualClock
from tests.healing.stage import Holder, moves_to_another_host
from tests.store.hand import Hand

ACTIONS = ("retry", "pending", "fail", "none")
SETTINGS = {
    "recovery_action_by_kind": {action: action for action in ACTIONS},
    "detection_interval_seconds": 0,
}

ENTRIES: dict[str, Callable[[Callable[..., Outlast], Outlast], object]] = {
    "start-up": lambda make_app, app: make_app(**SETTINGS).open(),
    "recover()": lambda make_app, app: app.recover(),
    "heal()": lambda make_app, app: app.heal(),
    "the detector": lambda make_app, app: MaintenanceLoop(app._handle.serve(), lambda: 0.0).tick(),
    "a claim": lambda make_app, app: app.claim("next", queue="an empty one"),
}

# Where an orphan comes to rest: status, attempt, recoveries, why, by whom.
REST = {
    "retry": ("pending", 1, 1, "{}_retry", "system/recovery"),
    "pending": ("pending", 0, 1, "{}_reset", "system/recovery"),
    "fail": ("failed", 1, 0, "{}_policy_fail", "system/recovery"),
    "none": ("running", 1, 0, "claimed", "worker"),
    "spent": ("failed", 1, 0, "max_retries_exceeded", "system/recovery"),
}
LOSSES = {"near": "crash", "far": "crash", "late": "lease_expired"}

FOUND = """
    SELECT t.queue, t.id, t.status, t.attempt, t.recovery_count, x.reason, x.actor
    FROM tasks t JOIN transitions x
        ON x.pos = (SELECT max(pos) FROM transitions WHERE task_seq = t.seq)
"""


def wreck(app: Outlast, clock: ManualClock, hand: Hand, stack: ExitStack) -> None:
    """One that was killed, one elsewhere that fell silent, one that outlived its leases."""
    for queue in LOSSES:
        for kind in REST:
            app.enqueue("retry" if kind == "spent" else kind, id=f"{queue} {kind}", queue=queue)
    hand.run("UPDATE tasks SET max_recoveries = 0 WHERE id LIKE '% spent'")
    near, far = (stack.enter_context(Holder(app.path, name)) for name in ("near", "far"))
    near.claims(len(REST), queue="near", lease="1h")
    far.claims(len(REST), queue="far", lease="1h")
    app.claim("late", limit=len(REST), queue="late", lease="101s")
    assert app.counts()["running"] == len(LOSSES) * len(REST)
    moves_to_another_host(app.path, far.pid)
    near.kill()
    clock.advance("101s")


@pytest.mark.proves("HEAL-04")
@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_recovers_by_the_same_rules(
    make_app: Callable[..., Outlast], clock: ManualClock, database: Path, entry: str
) -> None:
    app = make_app(**SETTINGS).open()
    with ExitStack() as stack:
        hand = Hand(database)
        stack.callback(hand.close)
        wreck(app, clock, hand, stack)
        ENTRIES[entry](make_app, app)
        found = {task_id: tuple(rest) for _, task_id, *rest in hand.rows(FOUND)}
        wanted = {
            f"{queue} {kind}": (*rest[:3], rest[3].format(loss), rest[4])
            for queue, loss in LOSSES.items()
            for kind, rest in REST.items()
        }
        assert found == wanted
        states = hand.rows("SELECT name, state FROM workers WHERE name <> 'next' ORDER BY seq")
        assert states == [("near", "dead"), ("far", "dead"), ("late", "alive")]
        boundaries = hand.value("SELECT count(*) FROM task_checkpoints")
        assert boundaries == len(REST) - 1
