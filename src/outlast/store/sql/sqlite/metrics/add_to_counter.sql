INSERT INTO counters (name, value) VALUES (:name, :by)
ON CONFLICT DO UPDATE SET value = value + excluded.value
