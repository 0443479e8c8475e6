-- What the transition table refuses, the database refuses too, also for hand-written SQL.

-- Given that status words are checked by the table, these are the only illegal moves.
CREATE TRIGGER check_work_items_status AFTER UPDATE OF status ON tasks
WHEN old.status <> new.status
     AND CASE old.status WHEN 'running' THEN 0
                         WHEN 'pending' THEN new.status = 'completed'
                         ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'a task cannot move that way: see the legal moves in the documentation');
END;

-- Outlast's own statements set one of the three times themselves; this fires for hand-written SQL
-- alone. The view derives updated_at from the newest of the three.
CREATE TRIGGER update_work_items_timestamp AFTER UPDATE ON tasks
WHEN new.state_changed_at <= old.state_changed_at
     AND coalesce(new.heartbeat_at <= old.heartbeat_at, new.heartbeat_at IS old.heartbeat_at)
     AND new.touched_at IS old.touched_at
BEGIN
    UPDATE tasks SET touched_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
    WHERE seq = new.seq;
END;

CREATE TRIGGER transitions_are_never_changed BEFORE UPDATE ON transitions
BEGIN
    SELECT RAISE(ABORT, 'transitions are append-only');
END;

CREATE TRIGGER transitions_live_with_their_task BEFORE DELETE ON transitions
WHEN EXISTS (SELECT 1 FROM tasks WHERE seq = old.task_seq)
BEGIN
    SELECT RAISE(ABORT, 'transitions are append-only and go with their task');
END;

CREATE TRIGGER check_checkpoints_type BEFORE INSERT ON task_checkpoints
WHEN CASE new.checkpoint_type
         WHEN 'iteration_start' THEN 0
         WHEN 'iteration_end' THEN 0
         WHEN 'tool_executed' THEN 0
         WHEN 'llm_response' THEN 0
         WHEN 'approval_point' THEN 0
         WHEN 'state_transition' THEN 0
         WHEN 'manual_checkpoint' THEN 0
         WHEN 'error_boundary' THEN 0
         ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'unknown checkpoint type');
END;

-- REPLACE would delete without asking the trigger below.
CREATE TRIGGER checkpoints_are_never_replaced BEFORE INSERT ON task_checkpoints
WHEN EXISTS (SELECT 1 FROM task_checkpoints WHERE pos = new.pos)
     OR EXISTS (SELECT 1 FROM task_checkpoints WHERE id = new.id)
     OR EXISTS (SELECT 1 FROM task_checkpoints
                WHERE task_seq = new.task_seq AND sequence_number = new.sequence_number)
BEGIN
    SELECT RAISE(ABORT, 'checkpoints are append-only');
END;

CREATE TRIGGER checkpoints_are_never_changed BEFORE UPDATE ON task_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'checkpoints are append-only');
END;

-- A cascade finds the owner, be it the task or the group, gone already; the retention routine
-- raises its flag for the length of its own transaction.
CREATE TRIGGER checkpoints_are_kept BEFORE DELETE ON task_checkpoints
WHEN EXISTS (SELECT 1 FROM tasks WHERE seq = old.task_seq)
     AND (old.group_id IS NULL OR EXISTS (SELECT 1 FROM groups WHERE id = old.group_id))
     AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'retention_running')
BEGIN
    SELECT RAISE(ABORT, 'checkpoints are append-only; only retention and their task remove them');
END;

CREATE TRIGGER check_idempotency_keys_status BEFORE INSERT ON task_keys
WHEN CASE new.status WHEN 'pending' THEN 0 WHEN 'completed' THEN 0 WHEN 'failed' THEN 0
                     ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'unknown idempotency key status');
END;

CREATE TRIGGER check_idempotency_keys_status_change BEFORE UPDATE OF status ON task_keys
WHEN CASE new.status WHEN 'pending' THEN 0 WHEN 'completed' THEN 0 WHEN 'failed' THEN 0
                     ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'unknown idempotency key status');
END;
