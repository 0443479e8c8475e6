"""Hot statements walk an index range or a rowid, on a store that nobody ever analyzed."""

from collections.abc import Mapping
from itertools import product

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


def is_sorted_by_hand(lines: list[str]) -> bool:
    return any("TEMP B-TREE" in line for line in lines)


def wrong_plans(hand: Hand, indexes_by_statement: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The plans of those statements that scan something, or leave one of their indexes unused."""
    plans = {name: plan(hand.connection, sql(name)) for name in indexes_by_statement}
    return {
        name: lines
        for name, lines in plans.items()
        if scans(lines) or not all(uses(lines, index) for index in indexes_by_statement[name])
    }


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
def test_a_claim_takes_its_rows_from_an_index_in_order(blank: Hand) -> None:
    assert wrong_plans(blank, CLAIM) == {}
    plans = {name: plan(blank.connection, sql(name)) for name in CLAIM}
    assert {name: lines for name, lines in plans.items() if is_sorted_by_hand(lines)} == {}


@pytest.mark.proves("PRF-08")
def test_a_claim_of_several_kinds_merges_their_ranges_without_sorting(blank: Hand) -> None:
    wrong = {}
    for name, kinds in product(("ready_by_kind", "ready_by_group_kind"), (1, 2, 3, 200)):
        lines = plan(blank.connection, union_of(name, kinds))
        searches = [line for line in lines if f"idx_tasks_{name}" in line]
        merges = len(searches) == kinds and all(
            line.startswith("SEARCH") and "kind=?" in line for line in searches
        )
        if not merges or scans(lines) or is_sorted_by_hand(lines):
            wrong[name, kinds] = lines
    assert wrong == {}


TASKS = {
    "situations": [ROWID],
    "situation_by_id": [BY_ID],
    "situations_of_incarnation": ["sqlite_autoindex_workers_1", BY_HOLDER],
    "situations_expired_elsewhere": [ALIVE, BY_HOLDER],
    "log_moves": [ROWID],
    "move_tasks": [ROWID],
    "complete_tasks": [ROWID],
    "horizon": ["idx_tasks_due", "idx_work_items_lease_expiry"],
    "not_ended_among": [BY_ID],
    "settled_by_grant": ["idx_transitions_task"],
    "settle_key": ["idx_idempotency_keys_work_item"],
    "renew_lease": [ROWID],
    "mark_started": [ROWID],
    "add_checkpoint": [ROWID, "idx_checkpoints_work_item"],
    "add_payload_blob": [BY_ID],
    "delete_tasks": [ROWID],
    "records_by_seq": [ROWID],
    "get_task": [BY_ID],
    "status_of": [BY_ID],
    "history": [BY_ID, "idx_transitions_task"],
    "holder_of": [BY_ID, ROWID],
    "park_task": [BY_ID],
    "unpark_task": [BY_ID],
    "park_damaged": [ROWID],
    "counts_of_group": ["idx_work_items_task"],
    "seqs_of_group": ["idx_work_items_task"],
    "seqs_ended": ["idx_jobs_status_updated"],
    "tasks_before": [ROWID],
    "held_leases": [ROWID],
    "renew_leases": [ROWID],
    "purge_keys": ["idx_idempotency_keys_expires_at"],
    "trim_checkpoints": [ROWID, "idx_checkpoints_work_item"],
    "checkpoint_counts": [BY_ID, "idx_checkpoints_work_item"],
}
WORKERS = {
    "living_peers": [ALIVE],
    "end_worker": [ALIVE],
    "beat_worker": [ROWID],
    "beat_by_hand": [ROWID, BY_ID],
    "held_count": [BY_HOLDER],
    "held_ids": [BY_HOLDER],
    "workers_living": [ALIVE],
}


@pytest.mark.proves("PRF-08")
def test_a_hot_statement_walks_its_indexes(blank: Hand) -> None:
    assert wrong_plans(blank, TASKS | WORKERS) == {}


@pytest.mark.proves("PRF-08", "MIG-08", "MIG-11")
def test_expired_leases_are_found_by_their_expiry(blank: Hand) -> None:
    indexes = {"situations_expired": ["idx_work_items_lease_expiry", ROWID]}
    assert wrong_plans(blank, indexes) == {}


@pytest.mark.proves("PRF-08", "CLM-16")
def test_what_a_worker_holds_is_found_by_its_holder(blank: Hand) -> None:
    assert wrong_plans(blank, {"tasks_held_by": [ALIVE, BY_HOLDER]}) == {}


@pytest.mark.proves("PRF-08", "HB-05")
def test_silent_workers_are_found_by_their_last_beat(blank: Hand) -> None:
    assert wrong_plans(blank, {"silent_workers": ["idx_heartbeats_timestamp"]}) == {}


@pytest.mark.proves("PRF-08", "CKP-16", "MIG-09")
def test_checkpoints_are_found_by_task_and_by_type(blank: Hand) -> None:
    indexes = {
        "checkpoints_of_task": [BY_ID, "idx_checkpoints_work_item"],
        "checkpoints_of_type": ["idx_checkpoints_type"],
    }
    assert wrong_plans(blank, indexes) == {}


@pytest.mark.proves("PRF-08", "IDM-14", "MIG-10")
def test_keys_are_found_by_task_group_and_status_newest_first_without_sorting(blank: Hand) -> None:
    indexes = {
        "keys_of_task": ["idx_idempotency_keys_work_item"],
        "keys_of_group": ["idx_idempotency_keys_task"],
        "keys_by_status": ["idx_idempotency_keys_status"],
    }
    assert wrong_plans(blank, indexes) == {}
    plans = {name: plan(blank.connection, sql(name)) for name in indexes}
    assert {name: lines for name, lines in plans.items() if is_sorted_by_hand(lines)} == {}


@pytest.mark.proves("PRF-08", "IDM-16")
def test_a_key_is_read_by_the_primary_key(blank: Hand) -> None:
    assert wrong_plans(blank, {"read_key": ["PRIMARY KEY"]}) == {}


@pytest.mark.proves("IDM-16")
def test_a_key_is_unique_by_the_databases_own_primary_key(blank: Hand) -> None:
    """The upsert that reserves a key has nothing to look for: the key is the table."""
    assert plan(blank.connection, sql("reserve_key")) == []
    insert = "INSERT INTO task_keys (idempotency_key, request_hash, created_at) VALUES ('k', '', 1)"
    assert blank.run(insert) == 1
    with pytest.raises(Refused, match="UNIQUE"):
        blank.run(insert)


# Queries of the seeds and of the retention to come, on their own indexes.
OF_TASKS = {
    "SELECT work_item_id FROM work_items WHERE task_id = ?": "idx_work_items_task",
    "SELECT id FROM tasks WHERE group_id = ? AND status = ? ORDER BY created_at DESC": (
        "idx_work_items_task"
    ),
}
OF_CHECKPOINTS = {
    "SELECT * FROM checkpoints WHERE task_id = ? ORDER BY sequence_number DESC LIMIT 1": (
        "idx_checkpoints_task_sequence"
    ),
    "SELECT pos FROM task_checkpoints WHERE created_at < ? ORDER BY created_at DESC": (
        "idx_checkpoints_created_at"
    ),
}
OF_KEYS = {
    "SELECT response_data FROM idempotency_keys WHERE idempotency_key = ?": "PRIMARY KEY",
    "SELECT idempotency_key FROM task_keys WHERE expires_at < ?": (
        "idx_idempotency_keys_expires_at"
    ),
}
OF_OLD_ROWS = {
    "SELECT seq FROM tasks WHERE status = 'failed' AND completed_at < ?": "idx_jobs_status_updated",
    "SELECT name FROM workers WHERE beat_at < ?": "idx_heartbeats_timestamp",
}


@pytest.mark.proves("PRF-08", "MIG-08", "MIG-09", "MIG-10", "MIG-11", "IDM-16")
def test_a_query_of_the_seeds_walks_its_index(blank: Hand) -> None:
    indexes = OF_TASKS | OF_CHECKPOINTS | OF_KEYS | OF_OLD_ROWS
    plans = {query: plan(blank.connection, query) for query in indexes}
    assert {
        query: lines
        for query, lines in plans.items()
        if scans(lines) or not uses(lines, indexes[query]) or is_sorted_by_hand(lines)
    } == {}


def test_the_store_is_never_analyzed(hand: Hand) -> None:
    """So that a plan depends on nothing but the statement and the schema."""
    assert hand.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'") == []
