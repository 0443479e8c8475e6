-- Workers beat and say what they serve; attempts in a process of their own say how it ended.

ALTER TABLE workers ADD COLUMN task_seq INTEGER REFERENCES tasks (seq) ON DELETE SET NULL;
ALTER TABLE workers ADD COLUMN progress TEXT;
ALTER TABLE workers ADD COLUMN serves TEXT;
ALTER TABLE workers ADD COLUMN stuck TEXT;

CREATE INDEX idx_workers_task ON workers (task_seq) WHERE task_seq IS NOT NULL;

ALTER TABLE transitions ADD COLUMN exit_signal INTEGER;
ALTER TABLE transitions ADD COLUMN peak_memory_bytes INTEGER;

-- Parked tasks that no clock will wake. Hardly any task is ever in here, so hardly any pays for it.
CREATE INDEX idx_tasks_parked ON tasks (queue, group_id)
    WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay';

-- With the queue in it, a queue's final tasks are counted without a look at the table.
DROP INDEX IF EXISTS idx_jobs_status_updated;
CREATE INDEX idx_jobs_status_updated ON tasks (status, completed_at, queue)
    WHERE completed_at IS NOT NULL;

DROP VIEW worker_heartbeats;

-- A beat's task is the one it named, else the first that its worker holds.
CREATE VIEW worker_heartbeats AS
SELECT w.name AS worker_id,
       coalesce((SELECT n.id FROM tasks n WHERE n.seq = w.task_seq),
                (SELECT t.id FROM tasks t WHERE t.holder = w.seq AND t.status = 'running'
                 ORDER BY t.seq LIMIT 1)) AS task_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', w.beat_at / 1000.0, 'unixepoch') AS timestamp
FROM workers w
WHERE w.state = 'alive';
