"""What the caller's statements may not do in our transaction: refused, and nothing stored."""

from typing import Any

import apsw.ext
import pytest

from outlast import Outlast, StatementRefused
from outlast.store.sqlite.migrate import our_names
from outlast.store.sqlite.statements import sql
from tests.store.hand import Hand, everything
from tests.store.sql.test_statements import NAMES

REFUSED = {
    "insert into ours": "INSERT INTO tasks (id) VALUES ('x')",
    "update of ours": "UPDATE tasks SET priority = 9",
    "update of ours in another case": 'UPDATE main."TaSkS" SET priority = 9',
    "delete from ours": "DELETE FROM task_keys",
    "replace into ours": "REPLACE INTO meta VALUES ('epoch', '9')",
    "upsert into ours": "INSERT INTO meta VALUES ('a', '1') ON CONFLICT DO UPDATE SET value = '2'",
    "ours behind a WITH": "WITH x AS (SELECT 1) DELETE FROM tasks",
    "insert into a view of ours": "INSERT INTO work_items (work_item_id) VALUES ('x')",
    "a trigger of theirs into ours": "INSERT INTO sneaky VALUES (1)",
    "a view of theirs over ours": "UPDATE my_tasks SET priority = 9",
    "explain": "EXPLAIN UPDATE tasks SET priority = 9",
    "the engine's own tables": "INSERT INTO sqlite_sequence VALUES ('tasks', 9)",
    "begin": "BEGIN",
    "commit": "COMMIT",
    "end": "END TRANSACTION",
    "rollback": "ROLLBACK",
    "savepoint": "SAVEPOINT mine",
    "release": "RELEASE mine",
    "rollback to": "ROLLBACK TO mine",
    "pragma": "PRAGMA user_version = 9",
    "pragma that reads": "PRAGMA table_info(tasks)",
    "pragma as a table": "SELECT * FROM pragma_journal_mode",
    "pragma that loosens": "PRAGMA foreign_keys = OFF",
    "attach": "ATTACH ':memory:' AS other",
    "detach": "DETACH other",
    "create table": "CREATE TABLE t (a)",
    "create temporary table": "CREATE TEMP TABLE t (a)",
    "create trigger": "CREATE TRIGGER t AFTER INSERT ON orders BEGIN SELECT 1; END",
    "create trigger on ours": "CREATE TEMP TRIGGER t AFTER UPDATE ON tasks BEGIN SELECT 1; END",
    "create index": "CREATE INDEX i ON orders (note)",
    "create view": "CREATE VIEW v AS SELECT 1",
    "create virtual table": "CREATE VIRTUAL TABLE v USING fts5(a)",
    "alter table": "ALTER TABLE orders ADD COLUMN more",
    "drop table": "DROP TABLE orders",
    "drop one of our guards": "DROP TRIGGER check_work_items_status",
    "reindex": "REINDEX",
    "analyze": "ANALYZE",
    "ours after theirs": "INSERT INTO orders VALUES (7, 'x'); UPDATE tasks SET priority = 9",
    "commit after theirs": "INSERT INTO orders VALUES (7, 'x'); COMMIT",
}  # fmt: skip


@pytest.mark.proves("QUE-16")
@pytest.mark.parametrize("what", REFUSED)
def test_a_forbidden_statement_is_refused_and_nothing_is_stored(
    app: Outlast, shop: Hand, what: str
) -> None:
    app.enqueue("k", id="t")
    (lease,) = app.claim("w")
    before = everything(shop)
    fine = ("INSERT INTO orders VALUES (1, 'fine')", ())
    also: list[Any] = [fine, (REFUSED[what], ())]
    with pytest.raises(StatementRefused, match="tables of your own"):
        app.enqueue("k", also=also)
    with pytest.raises(StatementRefused, match="tables of your own"):
        lease.complete({"big": "x" * 5000}, also=also)
    assert everything(shop) == before
    assert lease.complete(also=[fine])
    assert app.enqueue("k", also=[("DELETE FROM orders", ())]).status == "pending"


@pytest.mark.proves("QUE-16")
def test_every_table_and_view_of_ours_is_closed_to_the_caller(app: Outlast, shop: Hand) -> None:
    kinds = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
    ours = {name for (name,) in shop.rows(kinds)} & our_names()
    assert len(ours) == 21 + 13
    for name in ours:
        with pytest.raises(StatementRefused, match=f" {name} "):
            app.enqueue("k", also=[(f'INSERT INTO "{name}" DEFAULT VALUES', ())])


@pytest.mark.proves("QUE-16")
def test_the_text_of_our_own_statements_is_refused_though_we_have_it_prepared(
    app: Outlast, shop: Hand
) -> None:
    """The authorizer speaks when a statement is prepared; a cached one would pass it by."""
    app.enqueue("k", id="t", idempotency_key="k", group="g")
    (lease,) = app.claim("w")
    lease.renew()
    lease.checkpoint("manual_checkpoint", {})
    lease.complete({"a": 1})
    app.unpause("default")
    before = everything(shop)
    writing = [
        name
        for name in NAMES
        if ":member" not in sql(name)
        and not name.startswith("flush_")
        and not apsw.ext.query_info(shop.connection, sql(name)).is_readonly
    ]
    assert len(writing) > 20
    for name in writing:
        with pytest.raises(StatementRefused):
            app.enqueue("k", also=[(sql(name), {})])
    assert everything(shop) == before


def test_the_engine_keeps_its_own_rights_between_and_after_refusals(
    app: Outlast, shop: Hand
) -> None:
    with pytest.raises(StatementRefused):
        app.enqueue("k", also=[("DELETE FROM tasks", ())])
    app.enqueue("k", id="t", also=[("INSERT INTO orders VALUES (1, 'fine')", ())])
    app.park("t")
    app.unpark("t")
    (lease,) = app.claim("w")
    assert lease.complete()
    app.flush_wal()
