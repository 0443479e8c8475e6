"""The caller's own statements, on the caller's own tables, in the transaction of a verb of ours."""

from typing import Any

import pytest

from outlast import DatabaseError, InvalidInput, Lease, LeaseLost, Outlast
from outlast.testing import ManualClock
from tests.store.hand import Hand
from tests.support.children import Child
from tests.support.foreign import foreign_rows, foreign_statuses

INSERT = "INSERT INTO orders (number, note) VALUES (?, ?)"


@pytest.fixture
def shop(app: Outlast, hand: Hand) -> Hand:
    """A table of the caller's in the store's file."""
    hand.run("CREATE TABLE orders (number INTEGER PRIMARY KEY, note TEXT)")
    return hand


def orders(hand: Hand) -> list[Any]:
    return hand.rows("SELECT number, note FROM orders ORDER BY number")


def claimed(app: Outlast, task_id: str = "t") -> Lease:
    app.enqueue("k", id=task_id)
    (lease,) = app.claim("w")
    return lease


@pytest.mark.proves("QUE-16")
def test_own_rows_are_committed_with_an_enqueue(app: Outlast, shop: Hand) -> None:
    app.enqueue("k", id="t", also=[(INSERT, (1, "new")), (INSERT, (2, "old"))])
    assert app.get("t").status == "pending"
    app.enqueue(
        "k",
        id="u",
        also=[
            ("UPDATE orders SET note = :note WHERE number = :number", {"number": 1, "note": "x"}),
            ("DELETE FROM orders WHERE number = 2", ()),
            ("INSERT INTO orders SELECT 9, id FROM tasks WHERE id = 'u' RETURNING number", ()),
        ],
    )
    assert orders(shop) == [(1, "x"), (9, "u")]


@pytest.mark.proves("QUE-16")
def test_own_rows_are_committed_once_with_many_tasks(app: Outlast, shop: Hand) -> None:
    app.enqueue_many("k", range(5), also=[(INSERT, (1, "batch"))])
    assert (app.counts()["pending"], orders(shop)) == (5, [(1, "batch")])


@pytest.mark.proves("QUE-16")
def test_own_rows_are_committed_with_a_completion(app: Outlast, shop: Hand) -> None:
    lease = claimed(app)
    assert lease.complete({"ok": True}, also=[(INSERT, (1, "done"))])
    assert app.get("t").result == {"ok": True}
    assert orders(shop) == [(1, "done")]


@pytest.mark.proves("QUE-16")
def test_a_failing_statement_takes_the_enqueue_back(app: Outlast, shop: Hand) -> None:
    shop.run(INSERT, 1, "there")
    with pytest.raises(DatabaseError, match="UNIQUE"):
        app.enqueue(
            "k", group="g", idempotency_key="key", also=[(INSERT, (2, "x")), (INSERT, (1, "twin"))]
        )
    assert app.counts() == dict.fromkeys(app.counts(), 0)
    assert orders(shop) == [(1, "there")]
    for table in ("groups", "task_keys"):
        assert shop.value(f"SELECT count(*) FROM {table}") == 0
    app.enqueue("k", idempotency_key="key", also=[(INSERT, (2, "x"))])
    assert orders(shop) == [(1, "there"), (2, "x")]


@pytest.mark.proves("QUE-16")
def test_a_failing_statement_takes_the_completion_back_and_leaves_the_lease_usable(
    app: Outlast, shop: Hand
) -> None:
    shop.run(INSERT, 1, "there")
    lease = claimed(app)
    before = shop.task("t")
    for _ in range(2):
        with pytest.raises(DatabaseError, match="UNIQUE"):
            lease.complete({"big": "x" * 5000}, also=[(INSERT, (2, "x")), (INSERT, (1, "twin"))])
        assert shop.task("t") == before
        assert shop.value("SELECT count(*) FROM blobs") == 0
        assert len(app.history("t")) == 1
    lease.renew()
    lease.checkpoint("manual_checkpoint", {})
    assert lease.complete(also=[(INSERT, (2, "x"))])
    assert orders(shop) == [(1, "there"), (2, "x")]


def test_a_second_completion_by_the_same_lease_does_not_run_the_statements_again(
    app: Outlast, shop: Hand
) -> None:
    lease = claimed(app)
    assert lease.complete(also=[(INSERT, (1, "first"))])
    assert not lease.complete(also=[(INSERT, (2, "second"))])
    assert orders(shop) == [(1, "first")]


def test_a_lost_lease_does_not_run_the_statements(
    app: Outlast, clock: ManualClock, shop: Hand
) -> None:
    lease = claimed(app)
    clock.advance("1h")
    app.heal()
    with pytest.raises(LeaseLost):
        lease.complete(also=[(INSERT, (1, "late"))])
    assert orders(shop) == []


def test_a_repeated_request_does_not_run_the_statements_again(app: Outlast, shop: Hand) -> None:
    first = app.enqueue("k", 1, idempotency_key="key", also=[(INSERT, (1, "first"))])
    again = app.enqueue("k", 1, idempotency_key="key", also=[(INSERT, (2, "again"))])
    assert again.id == first.id
    assert orders(shop) == [(1, "first")]


def _dies_at(path: str, point: str) -> None:
    from outlast import Outlast, probes
    from tests.support.childside import die

    app = Outlast(path)
    statement = "INSERT INTO orders (number, note) VALUES (?, ?)"
    if point.startswith("settle"):
        app.enqueue("k", id="t")
        (lease,) = app.claim("w")
        probes.arm(lambda name: die() if name == point else None)
        lease.complete(also=[(statement, (1, "x"))])
    else:
        probes.arm(lambda name: die() if name == point else None)
        app.enqueue("k", id="t", also=[(statement, (1, "x"))])


@pytest.mark.proves("QUE-16")
@pytest.mark.parametrize(
    ("point", "visible"),
    [
        ("enqueue.inserted", False),
        ("enqueue.written", False),
        ("enqueue.committed", True),
        ("settle.updated", False),
        ("settle.written", False),
        ("settle.committed", True),
    ],
)
def test_a_kill_between_the_two_writes_leaves_both_or_neither(
    app: Outlast, shop: Hand, point: str, visible: bool
) -> None:
    with Child(_dies_at, app.path, point) as child:
        assert child.wait() == -9
    statuses = foreign_statuses(app.path)
    own = foreign_rows(app.path, "SELECT number FROM orders")
    assert own == ([[1]] if visible else [])
    if point.startswith("settle"):
        assert statuses == {"t": "completed" if visible else "running"}
    else:
        assert statuses == ({"t": "pending"} if visible else {})


@pytest.mark.proves("QUE-16")
def test_the_callers_own_triggers_and_links_work(app: Outlast, shop: Hand) -> None:
    shop.run("CREATE TABLE lines (order_number REFERENCES orders ON DELETE CASCADE, what)")
    shop.run("CREATE TABLE log (what)")
    shop.run(
        "CREATE TRIGGER noted AFTER INSERT ON orders BEGIN INSERT INTO log VALUES (new.note); END"
    )
    app.enqueue("k", also=[(INSERT, (1, "a")), ("INSERT INTO lines VALUES (1, 'tea')", ())])
    assert shop.rows("SELECT what FROM log") == [("a",)]
    app.enqueue("k", also=[("DELETE FROM orders", ())])
    assert shop.value("SELECT count(*) FROM lines") == 0
    with pytest.raises(DatabaseError, match="FOREIGN KEY"):
        app.enqueue("k", also=[("INSERT INTO lines VALUES (99, 'none')", ())])
    assert app.counts()["pending"] == 2


def test_a_full_text_table_of_the_callers_works(app: Outlast, shop: Hand) -> None:
    shop.run("CREATE VIRTUAL TABLE notes USING fts5(body)")
    insert = "INSERT INTO notes VALUES (?)"
    app.enqueue("k", also=[(insert, ("crash-proof queue",))])
    assert claimed(app).complete(also=[(insert, ("resumable work",))])
    assert shop.rows("SELECT body FROM notes WHERE notes MATCH 'work'") == [("resumable work",)]


def test_a_link_that_is_checked_at_the_commit_takes_everything_back(
    app: Outlast, shop: Hand
) -> None:
    """The one error of a COMMIT that leaves no doubt: it is told as what it is."""
    shop.run("CREATE TABLE late (n REFERENCES orders DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(DatabaseError, match="FOREIGN KEY"):
        app.enqueue("k", also=[("INSERT INTO late VALUES (99)", ())])
    assert app.counts()["pending"] == 0
    lease = claimed(app)
    with pytest.raises(DatabaseError, match="FOREIGN KEY"):
        lease.complete(also=[("INSERT INTO late VALUES (99)", ())])
    assert lease.complete(also=[("INSERT INTO late VALUES (1)", ()), (INSERT, (1, "in time"))])


@pytest.mark.parametrize("values", [(1, object()), ("\ud800", "x"), {"a": 1}])
def test_values_that_do_not_fit_their_statement_are_wrong_input(
    app: Outlast, shop: Hand, values: Any
) -> None:
    names = ":a, :b" if isinstance(values, dict) else "?, ?"
    with pytest.raises(InvalidInput, match="values"):
        app.enqueue("k", also=[(f"INSERT INTO orders VALUES ({names})", values)])
    assert app.counts()["pending"] == 0


def test_the_values_of_a_statement_are_never_in_its_error(app: Outlast, shop: Hand) -> None:
    shop.run("CREATE TABLE strict_orders (number INTEGER, note TEXT CHECK (note = 'x')) STRICT")
    secret = "hunter2"
    statements: list[tuple[str, Any]] = [
        ("INSERT INTO strict_orders VALUES (1, ?)", (secret,)),
        ("INSERT INTO strict_orders VALUES (?, 'x')", (secret,)),
        ("INSERT INTO nowhere VALUES (?)", (secret,)),
        ("UPDATE tasks SET id = ?", (secret,)),
        ("INSERT INTO orders VALUES (?, ?, ?)", (secret, secret, secret)),
        ("INSERT INTO orders VALUES (?)", (secret, secret)),
    ]
    for statement in statements:
        with pytest.raises(Exception, match="statement") as caught:
            app.enqueue("k", also=[statement])
        assert secret not in str(caught.value)
    assert app.counts()["pending"] == 0
