UPDATE recovery_runs SET
    completed_at = :now,
    put_back = :put_back,
    failed = :failed,
    held = :held,
    skipped = :skipped,
    has_findings = :has_findings,
    details = :details
WHERE id = :id AND completed_at IS NULL
