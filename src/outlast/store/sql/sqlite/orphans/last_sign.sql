-- The newest sign of life of some incarnations: a beat, or a lease they took or renewed; the newest
-- thousand of what each still holds stand for all of it.
SELECT max(max(w.beat_at,
               coalesce((SELECT max(h.heartbeat_at)
                         FROM (SELECT t.heartbeat_at FROM tasks t
                               WHERE t.holder = w.seq AND t.status = 'running'
                               ORDER BY t.seq DESC LIMIT 1000) h), 0)))
FROM json_each(:incarnations) i CROSS JOIN workers w ON w.incarnation = i.value
