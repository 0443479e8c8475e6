INSERT INTO groups (id, created_at) VALUES (:group, :now) ON CONFLICT DO NOTHING
