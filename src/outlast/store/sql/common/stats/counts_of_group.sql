SELECT status, count(*) FROM tasks WHERE group_id = :group GROUP BY status
