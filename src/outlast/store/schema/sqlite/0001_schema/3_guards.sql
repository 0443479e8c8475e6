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

CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END;

-- Serving processes sum up now and then, from what they have read. Whoever removes rows sums up
-- what is left on the spot, by setting `metrics_fold_upto`.
CREATE TRIGGER metrics_are_folded AFTER UPDATE OF value ON counters
WHEN new.name = 'metrics_fold_upto'
BEGIN
    INSERT INTO metric_pairs (queue, kind)
    SELECT m.queue, m.kind FROM metric_marks m
    WHERE m.pos > (SELECT value FROM counters WHERE name = 'metrics_folded')
      AND m.pos <= new.value
      AND NOT EXISTS (SELECT 1 FROM metric_pairs p WHERE p.queue = m.queue AND p.kind = m.kind)
    GROUP BY m.queue, m.kind ORDER BY min(m.pos)
    LIMIT max(0, 500 - (SELECT count(*) FROM metric_pairs));

    INSERT INTO metric_rollup (queue, kind, was, became, reason, actor, upto_ms, count, sum_ms)
    SELECT coalesce(p.queue, 'other'), coalesce(p.kind, 'other'), m.was, m.became, m.reason,
           m.actor, m.upto_ms, count(*), sum(m.ms)
    FROM metric_marks m LEFT JOIN metric_pairs p ON p.queue = m.queue AND p.kind = m.kind
    WHERE m.pos > (SELECT value FROM counters WHERE name = 'metrics_folded')
      AND m.pos <= new.value
    GROUP BY 1, 2, 3, 4, 5, 6, 7
    ON CONFLICT DO UPDATE SET count = count + excluded.count, sum_ms = sum_ms + excluded.sum_ms;

    UPDATE counters SET value = max(value, new.value) WHERE name = 'metrics_folded';
END;

-- Tasks that never moved have nothing to sum up.
CREATE TRIGGER removed_tasks_were_counted BEFORE DELETE ON tasks
WHEN old.token > 0 OR old.completed_at IS NOT NULL
BEGIN
    UPDATE counters SET value = (SELECT seq FROM sqlite_sequence WHERE name = 'transitions')
    WHERE name = 'metrics_fold_upto'
      AND (SELECT value FROM counters WHERE name = 'metrics_folded')
          < (SELECT seq FROM sqlite_sequence WHERE name = 'transitions');

    INSERT INTO metric_rollup (queue, kind, was, became, reason, actor, upto_ms, count, sum_ms)
    SELECT coalesce(p.queue, 'other'), coalesce(p.kind, 'other'), old.status, 'removed', '', '',
           0, 1, 0
    FROM (SELECT 1) LEFT JOIN metric_pairs p ON p.queue = old.queue AND p.kind = old.kind
    WHERE old.completed_at IS NOT NULL
    ON CONFLICT DO UPDATE SET count = count + 1;
END;

CREATE TRIGGER removed_events_were_counted BEFORE DELETE ON events
WHEN old.pos > (SELECT value FROM counters WHERE name = 'metrics_folded')
BEGIN
    UPDATE counters SET value = (SELECT seq FROM sqlite_sequence WHERE name = 'transitions')
    WHERE name = 'metrics_fold_upto';
END;

CREATE TRIGGER removed_runs_were_counted BEFORE DELETE ON recovery_runs
WHEN EXISTS (SELECT 1 FROM events e
             WHERE e.kind = 'recovery.completed' AND e.run_id = old.id
               AND e.pos > (SELECT value FROM counters WHERE name = 'metrics_folded'))
BEGIN
    UPDATE counters SET value = (SELECT seq FROM sqlite_sequence WHERE name = 'transitions')
    WHERE name = 'metrics_fold_upto';
END;
