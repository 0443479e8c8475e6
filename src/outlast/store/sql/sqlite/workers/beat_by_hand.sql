-- A task that is not there is named by nobody: a beat must not fail over it.
UPDATE workers SET
    beat_at = :now,
    beat_mono_ms = :mono,
    task_seq = (SELECT t.seq FROM json_each(:task_ids) j CROSS JOIN tasks t ON t.id = j.value LIMIT 1),
    progress = :progress
WHERE seq = :row AND state = 'alive'
