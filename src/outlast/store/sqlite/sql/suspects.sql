-- Tasks that were taken back more than once, the worst first: by crash, by lease, and how last.
SELECT t.id, t.kind, t.status, t.recovery_count,
       (SELECT count(*) FROM transitions x WHERE x.task_seq = t.seq AND x.actor = 'system/recovery'
            AND x.reason GLOB 'crash_*'),
       (SELECT count(*) FROM transitions x WHERE x.task_seq = t.seq AND x.actor = 'system/recovery'
            AND x.reason GLOB 'lease_expired_*'),
       EXISTS (SELECT 1 FROM workers w WHERE w.name = t.last_worker_id AND w.serves IS NOT NULL),
       t.error
FROM tasks t INDEXED BY idx_tasks_recovered
WHERE t.recovery_count > 1
ORDER BY t.recovery_count DESC, t.seq DESC
LIMIT :limit
