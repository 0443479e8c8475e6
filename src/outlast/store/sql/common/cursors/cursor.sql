SELECT pos, task_seq, forgotten, born FROM cursors WHERE name = :name
