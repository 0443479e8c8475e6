-- Tasks that were taken back more than once, the worst first: by crash, by lease, and how last. The
-- loss that was one too many is one of these, and only its error says which.
SELECT t.id, t.kind, t.status,
       t.recovery_count + (t.status = 'failed' AND t.error GLOB '* of * times in kind *')
           - (SELECT count(*) FROM transitions x WHERE x.task_seq = t.seq AND x.reason GLOB 'taken_*'),
       (SELECT count(*) FROM transitions x WHERE x.task_seq = t.seq AND x.actor <> 'worker'
            AND x.reason GLOB 'crash_*')
           + (t.status = 'failed' AND t.error GLOB 'died * of * times in kind *'),
       (SELECT count(*) FROM transitions x WHERE x.task_seq = t.seq AND x.actor <> 'worker'
            AND x.reason GLOB 'lease_expired_*')
           + (t.status = 'failed' AND t.error GLOB 'lost * of * times in kind *'),
       EXISTS (SELECT 1 FROM workers w WHERE w.name = t.last_worker_id AND w.serves IS NOT NULL),
       t.error,
       -- Whom it was lost together with, in one batch of one worker, if that one was lost more often.
       (SELECT u.id
        FROM transitions x
        JOIN transitions y ON y.pos BETWEEN x.pos - 500 AND x.pos + 500
             AND y.worker_id = x.worker_id AND y.at = x.at AND y.task_seq <> x.task_seq
        JOIN tasks u ON u.seq = y.task_seq
        WHERE x.task_seq = t.seq AND x.actor <> 'worker' AND x.reason GLOB 'crash_*'
              AND (u.recovery_count > t.recovery_count
                   OR u.recovery_count = t.recovery_count AND u.status = 'failed'
                      AND t.status <> 'failed')
        ORDER BY u.recovery_count DESC, u.seq LIMIT 1),
       -- How many others it was lost together with that were lost no less often.
       (SELECT count(DISTINCT y.task_seq)
        FROM transitions x
        JOIN transitions y ON y.pos BETWEEN x.pos - 500 AND x.pos + 500
             AND y.worker_id = x.worker_id AND y.at = x.at AND y.task_seq <> x.task_seq
        JOIN tasks u ON u.seq = y.task_seq
        WHERE x.task_seq = t.seq AND x.actor <> 'worker' AND x.reason GLOB 'crash_*'
              AND (u.recovery_count > t.recovery_count
                   OR u.recovery_count = t.recovery_count
                      AND (u.status = 'failed') >= (t.status = 'failed')))
FROM (SELECT seq FROM tasks k INDEXED BY idx_tasks_recovered
      WHERE recovery_count > 1
        -- What people took from the living tells nothing of the task.
        AND recovery_count - (SELECT count(*) FROM transitions x
                              WHERE x.task_seq = k.seq AND x.reason GLOB 'taken_*') > 1
      ORDER BY recovery_count DESC, status = 'failed' DESC, seq DESC LIMIT :limit) worst
    CROSS JOIN tasks t ON t.seq = worst.seq
ORDER BY t.recovery_count DESC, t.status = 'failed' DESC, t.seq DESC
