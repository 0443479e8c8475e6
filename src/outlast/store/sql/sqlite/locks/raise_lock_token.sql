INSERT INTO counters (name, value) VALUES ('lock_token', :token)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value > value
