-- The indexes. Only what can be claimed now sits in the claim indexes: delayed, parked, running
-- and finished tasks cost a claim nothing. Names follow the schema seed where it gave one.

CREATE INDEX idx_work_items_status_priority ON tasks (queue, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL;
CREATE INDEX idx_tasks_ready_by_kind ON tasks (queue, kind, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL;
CREATE INDEX idx_tasks_ready_by_group ON tasks (group_id, queue, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL AND group_id IS NOT NULL;
CREATE INDEX idx_tasks_ready_by_group_kind ON tasks (group_id, queue, kind, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL AND group_id IS NOT NULL;
CREATE INDEX idx_tasks_due ON tasks (not_before)
    WHERE status = 'pending' AND parked = 'delay';
CREATE INDEX idx_work_items_lease_expiry ON tasks (lease_expires_mono_ms)
    WHERE status = 'running';
CREATE INDEX idx_work_items_lease_holder ON tasks (holder, status)
    WHERE holder IS NOT NULL;
CREATE INDEX idx_work_items_task ON tasks (group_id, status, created_at DESC)
    WHERE group_id IS NOT NULL;
-- Parked tasks that no clock will wake. Hardly any task is ever in here, so hardly any pays for it.
CREATE INDEX idx_tasks_parked ON tasks (queue, group_id)
    WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay';
-- With the queue in it, a queue's final tasks are counted without a look at the table.
CREATE INDEX idx_jobs_status_updated ON tasks (status, completed_at, queue)
    WHERE completed_at IS NOT NULL;
-- Hardly any task is ever in here either.
CREATE INDEX idx_tasks_recovered ON tasks (recovery_count) WHERE recovery_count > 1;

CREATE INDEX idx_transitions_task ON transitions (task_seq);
CREATE INDEX idx_transitions_run ON transitions (run_id, pos) WHERE run_id IS NOT NULL;
-- What anyone but the holder has moved: the audit item by item.
CREATE INDEX idx_transitions_acts ON transitions (pos) WHERE actor <> 'worker';

CREATE UNIQUE INDEX idx_checkpoints_work_item ON task_checkpoints (task_seq, sequence_number);
CREATE INDEX idx_checkpoints_task_sequence ON task_checkpoints (group_id, pos)
    WHERE group_id IS NOT NULL;
CREATE INDEX idx_checkpoints_type ON task_checkpoints (checkpoint_type, created_at DESC);
CREATE INDEX idx_checkpoints_created_at ON task_checkpoints (created_at DESC);

CREATE INDEX idx_idempotency_keys_task ON task_keys (group_id, created_at DESC)
    WHERE group_id IS NOT NULL;
CREATE INDEX idx_idempotency_keys_work_item ON task_keys (task_id, created_at DESC)
    WHERE task_id IS NOT NULL;
CREATE INDEX idx_idempotency_keys_expires_at ON task_keys (expires_at)
    WHERE expires_at IS NOT NULL;
CREATE INDEX idx_idempotency_keys_status ON task_keys (status, created_at DESC);

CREATE INDEX idx_workers_alive ON workers (state, incarnation) WHERE state = 'alive';
CREATE INDEX idx_heartbeats_timestamp ON workers (beat_at);
CREATE INDEX idx_workers_task ON workers (task_seq) WHERE task_seq IS NOT NULL;

CREATE INDEX idx_events_kind ON events (kind, pos);

CREATE INDEX idx_runs_telling ON recovery_runs (id) WHERE has_findings;
