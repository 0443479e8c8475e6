"""The schema as it is meant to be, column by column and index by index."""

import re

import pytest

from outlast import Outlast
from tests.store.golden import PUBLIC_API, SCHEMA, TO_UPDATE, public_api_text, schema_text
from tests.store.hand import Hand

WORK_ITEMS = (
    "work_item_id task_id work_type status priority lease_holder lease_acquired_at"
    " lease_expires_at heartbeat_at retry_count max_retries input_data output_data error_message"
    " created_at started_at completed_at updated_at"
).split()
CHECKPOINTS = (
    "checkpoint_id task_id work_item_id checkpoint_type sequence_number snapshot_data metadata"
    " created_at"
).split()
IDEMPOTENCY_KEYS = (
    "idempotency_key task_id work_item_id request_hash response_data status created_at"
    " completed_at expires_at"
).split()


@pytest.mark.proves("MIG-03")
def test_a_new_store_has_the_golden_schema(app: Outlast, hand: Hand) -> None:
    assert schema_text(hand.connection) == SCHEMA.read_text(encoding="utf-8"), TO_UPDATE


def test_no_write_pays_for_a_file_that_shrinks(hand: Hand) -> None:
    """docs/adr/0019-auto-vacuum.md has the figures."""
    assert hand.connection.pragma("auto_vacuum") == 0


@pytest.mark.proves("MIG-03")
def test_the_schema_report_lists_every_table_with_its_definition(app: Outlast, hand: Hand) -> None:
    report = app.schema()
    golden = SCHEMA.read_text(encoding="utf-8")
    made = re.findall(r"^CREATE (?:UNIQUE )?\w+ (\w+)", golden, re.MULTILINE)
    ours = {name: text for name, text in report.definitions.items() if name in made}
    assert sorted(ours) == sorted(made)
    assert all(f"{text};" in golden for text in ours.values())
    assert set(report.definitions) - set(ours) == {"sqlite_sequence"}
    hand.run("CREATE TABLE mine (a)")
    assert app.schema().definitions["mine"] == "CREATE TABLE mine (a)"


@pytest.mark.proves("QUE-06")
def test_a_task_carries_the_columns_of_the_schema_seed(hand: Hand) -> None:
    assert hand.columns("work_items") == WORK_ITEMS
    own = set(hand.columns("tasks"))
    assert own >= {
        "id", "group_id", "kind", "status", "priority", "holder", "worker_id", "token",
        "lease_acquired_at", "lease_expires_at", "heartbeat_at", "attempt", "retry_count",
        "recovery_count", "payload", "result", "error", "created_at", "started_at",
        "completed_at", "state_changed_at",
    }  # fmt: skip


@pytest.mark.proves("CKP-01")
def test_a_checkpoint_carries_the_columns_of_the_schema_seed(hand: Hand) -> None:
    assert hand.columns("checkpoints") == CHECKPOINTS
    required = "SELECT name FROM pragma_table_info('task_checkpoints') WHERE \"notnull\""
    assert {name for (name,) in hand.rows(required)} == {
        "id", "task_seq", "checkpoint_type", "sequence_number", "attempt", "snapshot_data",
        "snapshot_sum", "created_at",
    }  # fmt: skip


@pytest.mark.proves("IDM-01")
def test_an_idempotency_key_carries_the_columns_of_the_schema_seed(hand: Hand) -> None:
    assert hand.columns("idempotency_keys") == IDEMPOTENCY_KEYS
    key = "SELECT name FROM pragma_table_info('task_keys') WHERE pk"
    assert hand.rows(key) == [("idempotency_key",)]
    required = "SELECT name FROM pragma_table_info('task_keys') WHERE \"notnull\" AND NOT pk"
    assert {name for (name,) in hand.rows(required)} == {"request_hash", "status", "created_at"}


def index(hand: Hand, name: str) -> tuple[str, str, str]:
    """The table, the columns with their order, and the condition of an index."""
    columns = hand.rows(
        "SELECT name || iif(\"desc\", ' DESC', '') FROM pragma_index_xinfo(?) WHERE \"key\"", name
    )
    table, text = hand.row("SELECT tbl_name, sql FROM sqlite_schema WHERE name = ?", name)
    _, _, condition = text.partition("WHERE ")
    return table, ", ".join(column for (column,) in columns), condition


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        pytest.param(
            "idx_work_items_task",
            ("tasks", "group_id, status, created_at DESC", "group_id IS NOT NULL"),
            marks=pytest.mark.proves("MIG-08"),
        ),
        pytest.param(
            "idx_work_items_status_priority",
            ("tasks", "queue, priority DESC, seq", "status = 'pending' AND parked IS NULL"),
            marks=pytest.mark.proves("MIG-08"),
        ),
        pytest.param(
            "idx_work_items_lease_expiry",
            ("tasks", "lease_expires_mono_ms", "status = 'running'"),
            marks=pytest.mark.proves("MIG-08", "MIG-11"),
        ),
        pytest.param(
            "idx_work_items_lease_holder",
            ("tasks", "holder, status", "holder IS NOT NULL"),
            marks=pytest.mark.proves("MIG-08"),
        ),
        pytest.param(
            "idx_jobs_status_updated",
            ("tasks", "status, completed_at, queue", "completed_at IS NOT NULL"),
            marks=pytest.mark.proves("MIG-11"),
        ),
        pytest.param(
            "idx_heartbeats_timestamp",
            ("workers", "beat_at", ""),
            marks=pytest.mark.proves("MIG-11"),
        ),
        pytest.param(
            "idx_checkpoints_task_sequence",
            ("task_checkpoints", "group_id, pos", "group_id IS NOT NULL"),
            marks=pytest.mark.proves("MIG-09"),
        ),
        pytest.param(
            "idx_checkpoints_work_item",
            ("task_checkpoints", "task_seq, sequence_number", ""),
            marks=pytest.mark.proves("MIG-09"),
        ),
        pytest.param(
            "idx_checkpoints_type",
            ("task_checkpoints", "checkpoint_type, created_at DESC", ""),
            marks=pytest.mark.proves("MIG-09"),
        ),
        pytest.param(
            "idx_checkpoints_created_at",
            ("task_checkpoints", "created_at DESC", ""),
            marks=pytest.mark.proves("MIG-09"),
        ),
        pytest.param(
            "idx_idempotency_keys_task",
            ("task_keys", "group_id, created_at DESC", "group_id IS NOT NULL"),
            marks=pytest.mark.proves("MIG-10"),
        ),
        pytest.param(
            "idx_idempotency_keys_work_item",
            ("task_keys", "task_id, created_at DESC", "task_id IS NOT NULL"),
            marks=pytest.mark.proves("MIG-10"),
        ),
        pytest.param(
            "idx_idempotency_keys_expires_at",
            ("task_keys", "expires_at", "expires_at IS NOT NULL"),
            marks=pytest.mark.proves("MIG-10"),
        ),
        pytest.param(
            "idx_idempotency_keys_status",
            ("task_keys", "status, created_at DESC", ""),
            marks=pytest.mark.proves("MIG-10"),
        ),
    ],
)
def test_the_seeds_indexes_stand_under_their_names(
    hand: Hand, name: str, wanted: tuple[str, str, str]
) -> None:
    """Where the seed's column is a view's, the index has the column behind it."""
    assert index(hand, name) == wanted


@pytest.mark.proves("MIG-07")
def test_the_public_names_and_calls_are_the_golden_ones() -> None:
    """What is taken away or changed here breaks programs; what is added does not."""
    assert public_api_text() == PUBLIC_API.read_text(encoding="utf-8"), TO_UPDATE
