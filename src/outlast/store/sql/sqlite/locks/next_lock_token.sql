SELECT max(coalesce((SELECT value FROM counters WHERE name = 'lock_token'), 0), :floor) + 1
