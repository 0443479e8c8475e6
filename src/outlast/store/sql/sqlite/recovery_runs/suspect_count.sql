-- How many tasks were taken back more than once, by people not counted.
SELECT count(*) FROM tasks k INDEXED BY idx_tasks_recovered
WHERE recovery_count > 1
  AND recovery_count - (SELECT count(*) FROM transitions x
                        WHERE x.task_seq = k.seq AND x.reason GLOB 'taken_*') > 1
