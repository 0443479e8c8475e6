INSERT INTO queues (name, paused_at) VALUES (:queue, :now) ON CONFLICT DO NOTHING
