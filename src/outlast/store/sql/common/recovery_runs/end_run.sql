UPDATE recovery_runs SET
    completed_at = :now,
    put_back = :put_back,
    failed = :failed,
    held = :held,
    skipped = :skipped,
    has_findings = :has_findings,
    details = :details
WHERE id = :id AND completed_at IS NULL
RETURNING id, incarnation, pid, host, trigger, started_at, completed_at, previous, crashed_at,
          put_back, failed, held, skipped, found_running, wal_bytes, wal_frames, details
