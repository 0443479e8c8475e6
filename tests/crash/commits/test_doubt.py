"""A claim whose commit is in doubt: nobody holds what it took, and it comes back with the next."""

import threading
from collections.abc import Callable, Iterator

import pytest

from outlast import Lease, LeaseLost, OutcomeUnknown, Outlast, probes
from outlast.store.commit.batch import Batch
from outlast.store.sqlite.writer import Writer


@pytest.fixture
def used(app: Outlast) -> Iterator[Outlast]:
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    yield app
    probes.arm(None)


def _lose_sight_of(app: Outlast, point: str) -> None:
    """At that point of the next operation the openers' lock is gone: its outcome is unknown."""

    def strike(name: str) -> None:
        if name == point:
            probes.arm(None)
            (app.path.parent / f"{app.path.name}-outlast" / "openers").unlink()
            # Only what happens in the database's own folder makes a commit look closely.
            (app.path.parent / "something").touch()

    probes.arm(strike)


def test_what_a_doubtful_claim_took_comes_back_uncharged_with_the_next_claim(
    used: Outlast,
) -> None:
    _lose_sight_of(used, "claim.committed")
    with pytest.raises(OutcomeUnknown) as caught:
        used.claim("w", limit=2)
    assert set(caught.value.task_ids) == {"a", "b"}
    assert used.counts()["running"] == 2, "it did commit, and nobody was told"
    leases = used.claim("w", limit=3)
    assert [lease.task_id for lease in leases] == ["a", "b", "c"]
    assert [lease.attempt for lease in leases] == [1, 1, 1]
    assert [lease.complete() for lease in leases] == [True, True, True]


def test_an_idle_looking_store_still_gives_back_what_is_in_doubt(used: Outlast) -> None:
    """A poller that found nothing asks by reading; what it has in doubt must not wait for that."""
    leases = used.claim("w", limit=3)
    assert used.claim("w") == []
    leases[0].release()
    _lose_sight_of(used, "claim.committed")
    with pytest.raises(OutcomeUnknown):
        used.claim("w")
    (again,) = used.claim("w")
    assert again.task_id == "a"
    assert again.complete()


def test_a_claim_in_doubt_that_did_not_happen_harms_no_later_lease(
    used: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same row, holder and token may be handed out again; that lease is a real one."""
    _fail_one_commit(monkeypatch, lambda: True)
    with pytest.raises(OutcomeUnknown):
        used.claim("w")
    (lease,) = used.claim("w")
    assert lease.task_id == "a"
    assert [one.task_id for one in used.claim("w", limit=3)] == ["b", "c"]
    lease.renew()
    assert lease.complete()
    assert used.get("a").status == "completed"


def test_a_doubtful_claim_never_gives_back_another_threads_lease(
    used: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other thread claims while the first one's commit fails, and is handed the same task."""
    asking = threading.Event()
    got: list[Lease] = []

    def other() -> None:
        asking.set()
        got.extend(used.claim("w"))

    thread = threading.Thread(target=other)

    def start_the_other() -> bool:
        thread.start()
        return asking.wait(60)

    _fail_one_commit(monkeypatch, start_the_other)
    with pytest.raises(OutcomeUnknown):
        used.claim("w")
    thread.join(60)
    (lease,) = got
    third = used.claim("w", limit=3)
    assert lease.task_id not in {one.task_id for one in third}
    assert lease.complete()


def _fail_one_commit(monkeypatch: pytest.MonkeyPatch, due: Callable[[], bool]) -> None:
    """One COMMIT fails as on a full disk, which rolls everything back."""
    real = Writer._commit
    failed: list[bool] = []

    def commit(self: Writer, batch: Batch) -> None:
        if failed or not due():
            return real(self, batch)
        failed.append(True)
        self._roll_back()
        batch.commit_sent = True
        batch.conclude(OSError("the disk is full"))
        return None

    monkeypatch.setattr(Writer, "_commit", commit)


def test_a_settle_with_a_doubtful_grant_raises_and_never_answers_false(used: Outlast) -> None:
    """False means "done already, by this very lease"; what was given back is lost instead."""
    _lose_sight_of(used, "claim.committed")
    with pytest.raises(OutcomeUnknown):
        used.claim("w")
    given_back = used._handle.serve().store
    doubtful = list(given_back.engine.presence.own.doubtful)
    (lease,) = used.claim("w")
    with pytest.raises(LeaseLost):
        given_back.leases.settle(doubtful, used._handle.now())
    assert lease.complete()
