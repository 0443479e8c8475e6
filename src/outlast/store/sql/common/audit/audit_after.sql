SELECT id, at, actor, source, action, status, subject, run_id, data FROM audit
WHERE id > :after ORDER BY id LIMIT :limit
