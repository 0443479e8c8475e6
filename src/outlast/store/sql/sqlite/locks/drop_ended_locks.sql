-- Their leases have ended, and the locks with them; only the rows are left.
DELETE FROM locks
WHERE task_seq IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM tasks t
                  WHERE t.seq = locks.task_seq AND t.status = 'running'
                    AND t.token = locks.task_token)
