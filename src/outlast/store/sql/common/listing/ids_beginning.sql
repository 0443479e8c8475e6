SELECT id FROM tasks WHERE id >= :first AND id < :beyond ORDER BY id LIMIT :limit
