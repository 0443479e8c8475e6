SELECT pos, at, actor, source, action, 'succeeded', subject, run_id, data FROM audit_items
WHERE pos > :after ORDER BY pos LIMIT :limit
