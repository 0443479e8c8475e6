-- Once only: whoever heard no answer says it again.
INSERT INTO recovery_runs (id, incarnation, pid, host, boot_id, trigger, started_at, previous,
                           session_ended_at, crashed_at, found_running, wal_bytes, wal_frames)
VALUES (:id, :incarnation, :pid, :host, :boot_id, :trigger, :now, :previous,
        :session_ended_at, :crashed_at,
        (SELECT count(*) FROM tasks INDEXED BY idx_work_items_lease_expiry
         WHERE status = 'running'),
        :wal_bytes, :wal_frames)
ON CONFLICT (id) DO NOTHING
