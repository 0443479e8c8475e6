INSERT INTO metric_pairs (queue, kind) VALUES (:queue, :kind) ON CONFLICT DO NOTHING
