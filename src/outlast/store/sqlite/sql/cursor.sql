SELECT pos, task_seq, forgotten FROM cursors WHERE name = :name
