"""Hot statements walk an index range or a rowid, on a store that nobody ever analyzed."""

import apsw
import apsw.ext
import pytest

from outlast.store.sqlite.statements import sql, union_of
from tests.store.hand import Hand, Refused

ROWID = "INTEGER PRIMARY KEY"
BY_ID = "sqlite_autoindex_tasks_1"
BY_PRIORITY = "idx_work_items_status_priority"
BY_HOLDER = "idx_work_items_lease_holder"
ALIVE = "idx_workers_alive"


def plan(connection: apsw.Connection, text: str) -> list[str]:
    """The lines of a plan, without its tree."""
    found = apsw.ext.query_info(connection, text, explain_query_plan=True).query_plan
    waiting = list(found.sub or []) if found else []
    lines = []
    while waiting:
        node = waiting.pop(0)
        lines.append(node.detail)
        waiting += node.sub or []
    return lines


def scans(lines: list[str]) -> list[str]:
    """Lines that walk a whole table or index; the caller's own array is no table."""
    harmless = ("VIRTUAL TABLE", "CONSTANT ROW", "SCAN given")
    found = [line for line in lines if line.startswith("SCAN")]
    return [line for line in found if not any(word in line for word in harmless)]


def uses(lines: list[str], name: str) -> bool:
    return any(f" {name} " in f"{line} " for line in lines if line.startswith("SEARCH"))


CLAIM = {
    "ready_any": [BY_PRIORITY],
    "ready_by_group": ["idx_tasks_ready_by_group"],
    "candidates": [ROWID, "sqlite_autoindex_blobs_1"],
    "claim_tasks": [ROWID],
    "log_claims": [ROWID],
    "promote_due": [ROWID, "idx_tasks_due"],
    "next_due": ["idx_tasks_due"],
}


@pytest.mark.proves("PRF-08", "MIG-08")
@pytest.mark.parametrize("name", CLAIM)
def test_a_claim_takes_its_rows_from_an_index_in_order(blank: Hand, name: str) -> None:
    lines = plan(blank.connection, sql(name))
    assert scans(lines) == []
    assert not [line for line in lines if "TEMP B-TREE" in line]
    assert all(uses(lines, index) for index in CLAIM[name]), lines


@pytest.mark.proves("PRF-08")
@pytest.mark.parametrize("kinds", [1, 2, 3, 200])
@pytest.mark.parametrize("name", ["ready_by_kind", "ready_by_group_kind"])
def test_a_claim_of_several_kinds_merges_their_ranges_without_sorting(
    blank: Hand, name: str, kinds: int
) -> None:
    lines = plan(blank.connection, union_of(name, kinds))
    searches = [line for line in lines if f"idx_tasks_{name}" in line]
    assert len(searches) == kinds
    assert all(line.startswith("SEARCH") and "kind=?" in line for line in searches)
    assert scans(lines) == []
    assert not [line for line in lines if "TEMP B-TREE" in line]


@pytest.mark.proves("PRF-08")
@pytest.mark.parametrize(
    ("name", "indexes"),
    [
        ("situations", [ROWID]),
        ("situation_by_id", [BY_ID]),
        ("situations_of_incarnation", ["sqlite_autoindex_workers_1", BY_HOLDER]),
        ("situations_expired_elsewhere", [ALIVE, BY_HOLDER]),
        ("living_peers", [ALIVE]),
        ("end_worker", [ALIVE]),
        ("log_moves", [ROWID]),
        ("move_tasks", [ROWID]),
        ("complete_tasks", [ROWID]),
        ("horizon", ["idx_tasks_due", "idx_work_items_lease_expiry"]),
        ("not_ended_among", [BY_ID]),
        ("settled_by_grant", ["idx_transitions_task"]),
        ("settle_key", ["idx_idempotency_keys_work_item"]),
        ("renew_lease", [ROWID]),
        ("mark_started", [ROWID]),
        ("add_checkpoint", [ROWID, "idx_checkpoints_work_item"]),
        ("add_payload_blob", [BY_ID]),
        ("delete_tasks", [ROWID]),
        ("records_by_seq", [ROWID]),
        ("get_task", [BY_ID]),
        ("status_of", [BY_ID]),
        ("history", [BY_ID, "idx_transitions_task"]),
        ("holder_of", [BY_ID, ROWID]),
        ("park_task", [BY_ID]),
        ("unpark_task", [BY_ID]),
        ("park_damaged", [ROWID]),
        ("counts_of_group", ["idx_work_items_task"]),
        ("seqs_of_group", ["idx_work_items_task"]),
        ("seqs_ended", ["idx_jobs_status_updated"]),
        ("tasks_before", [ROWID]),
        ("held_leases", [ROWID]),
        ("renew_leases", [ROWID]),
        ("beat_worker", [ROWID]),
        ("beat_by_hand", [ROWID, BY_ID]),
        ("held_count", [BY_HOLDER]),
        ("held_ids", [BY_HOLDER]),
        ("workers_living", [ALIVE]),
        pytest.param(
            "silent_workers", ["idx_heartbeats_timestamp"], marks=pytest.mark.proves("HB-05")
        ),
        ("purge_keys", ["idx_idempotency_keys_expires_at"]),
        ("trim_checkpoints", [ROWID, "idx_checkpoints_work_item"]),
        ("checkpoint_counts", [BY_ID, "idx_checkpoints_work_item"]),
        pytest.param(
            "situations_expired",
            ["idx_work_items_lease_expiry", ROWID],
            marks=pytest.mark.proves("MIG-08", "MIG-11"),
        ),
        pytest.param("tasks_held_by", [ALIVE, BY_HOLDER], marks=pytest.mark.proves("CLM-16")),
        pytest.param(
            "checkpoints_of_task",
            [BY_ID, "idx_checkpoints_work_item"],
            marks=pytest.mark.proves("CKP-16", "MIG-09"),
        ),
        pytest.param(
            "checkpoints_of_type",
            ["idx_checkpoints_type"],
            marks=pytest.mark.proves("CKP-16", "MIG-09"),
        ),
        pytest.param(
            "keys_of_task",
            ["idx_idempotency_keys_work_item"],
            marks=pytest.mark.proves("IDM-14", "MIG-10"),
        ),
        pytest.param(
            "keys_of_group",
            ["idx_idempotency_keys_task"],
            marks=pytest.mark.proves("IDM-14", "MIG-10"),
        ),
        pytest.param(
            "keys_by_status",
            ["idx_idempotency_keys_status"],
            marks=pytest.mark.proves("IDM-14", "MIG-10"),
        ),
        pytest.param("read_key", ["PRIMARY KEY"], marks=pytest.mark.proves("IDM-16")),
    ],
)
def test_a_hot_statement_walks_its_indexes(blank: Hand, name: str, indexes: list[str]) -> None:
    lines = plan(blank.connection, sql(name))
    assert scans(lines) == []
    assert all(uses(lines, index) for index in indexes), lines


@pytest.mark.proves("IDM-16")
def test_a_key_is_unique_by_the_databases_own_primary_key(blank: Hand) -> None:
    """The upsert that reserves a key has nothing to look for: the key is the table."""
    assert plan(blank.connection, sql("reserve_key")) == []
    insert = "INSERT INTO task_keys (idempotency_key, request_hash, created_at) VALUES ('k', '', 1)"
    assert blank.run(insert) == 1
    with pytest.raises(Refused, match="UNIQUE"):
        blank.run(insert)


@pytest.mark.parametrize("name", ["keys_of_task", "keys_of_group", "keys_by_status"])
def test_keys_come_newest_first_without_sorting(blank: Hand, name: str) -> None:
    assert not [line for line in plan(blank.connection, sql(name)) if "TEMP B-TREE" in line]


# Queries of the seeds and of the retention to come, on their own indexes.
@pytest.mark.proves("PRF-08")
@pytest.mark.parametrize(
    ("query", "index"),
    [
        pytest.param(
            "SELECT work_item_id FROM work_items WHERE task_id = ?",
            "idx_work_items_task",
            marks=pytest.mark.proves("MIG-08"),
        ),
        pytest.param(
            "SELECT id FROM tasks WHERE group_id = ? AND status = ? ORDER BY created_at DESC",
            "idx_work_items_task",
            marks=pytest.mark.proves("MIG-08"),
        ),
        pytest.param(
            "SELECT * FROM checkpoints WHERE task_id = ? ORDER BY sequence_number DESC LIMIT 1",
            "idx_checkpoints_task_sequence",
            marks=pytest.mark.proves("MIG-09"),
        ),
        pytest.param(
            "SELECT pos FROM task_checkpoints WHERE created_at < ? ORDER BY created_at DESC",
            "idx_checkpoints_created_at",
            marks=pytest.mark.proves("MIG-09"),
        ),
        pytest.param(
            "SELECT response_data FROM idempotency_keys WHERE idempotency_key = ?",
            "PRIMARY KEY",
            marks=pytest.mark.proves("IDM-16"),
        ),
        pytest.param(
            "SELECT idempotency_key FROM task_keys WHERE expires_at < ?",
            "idx_idempotency_keys_expires_at",
            marks=pytest.mark.proves("MIG-10"),
        ),
        pytest.param(
            "SELECT seq FROM tasks WHERE status = 'failed' AND completed_at < ?",
            "idx_jobs_status_updated",
            marks=pytest.mark.proves("MIG-11"),
        ),
        pytest.param(
            "SELECT name FROM workers WHERE beat_at < ?",
            "idx_heartbeats_timestamp",
            marks=pytest.mark.proves("MIG-11"),
        ),
    ],
)
def test_a_query_of_the_seeds_walks_its_index(blank: Hand, query: str, index: str) -> None:
    lines = plan(blank.connection, query)
    assert scans(lines) == []
    assert uses(lines, index), lines
    assert not [line for line in lines if "TEMP B-TREE" in line]


def test_the_store_is_never_analyzed(hand: Hand) -> None:
    """So that a plan depends on nothing but the statement and the schema."""
    assert hand.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'") == []
