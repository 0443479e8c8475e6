SELECT min(pos), min(task_seq) FROM cursors WHERE moved_at >= :since
