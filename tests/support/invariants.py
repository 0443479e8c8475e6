"""What must hold in the rows of any store, as queries that find what breaks it."""

INVARIANTS = {
    "running pairs with its lease": """
        SELECT id FROM tasks WHERE (status = 'running') <> (holder IS NOT NULL)
           OR (status = 'running') <> (lease_expires_at IS NOT NULL)""",
    "counters stay within their limits": """
        SELECT id FROM tasks WHERE retry_count > max_retries OR recovery_count > max_recoveries
           OR attempt > 1 + max_retries + max_recoveries""",
    "the last transition leads to the present status": """
        SELECT t.id FROM tasks t JOIN transitions x ON x.pos =
            (SELECT max(pos) FROM transitions WHERE task_seq = t.seq)
        WHERE x.to_status <> t.status""",
    "a task that moved has transitions": """
        SELECT id FROM tasks t WHERE status <> 'pending'
           AND NOT EXISTS (SELECT 1 FROM transitions WHERE task_seq = t.seq)""",
    "each transition starts where the one before ended": """
        SELECT task_seq FROM (
            SELECT task_seq, from_status,
                   lag(to_status, 1, 'pending') OVER (PARTITION BY task_seq ORDER BY pos) AS before
            FROM transitions)
        WHERE from_status <> before""",
    "tokens rise": """
        SELECT task_seq FROM (
            SELECT task_seq, token, to_status,
                   lag(token, 1, 0) OVER (PARTITION BY task_seq ORDER BY pos) AS before
            FROM transitions)
        WHERE token < before OR (to_status = 'running' AND token = before)""",
}
