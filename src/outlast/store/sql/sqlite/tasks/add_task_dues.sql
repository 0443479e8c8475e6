-- Of the tasks that were inserted last, those that are delayed.
INSERT INTO task_dues (task_seq, due_at)
SELECT seq, not_before FROM tasks
WHERE seq > last_insert_rowid() - :inserted AND not_before IS NOT NULL
