SELECT name, pos, task_seq, forgotten, created_at, moved_at FROM cursors ORDER BY name
