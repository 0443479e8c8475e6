-- Events and transitions share one counter, which AUTOINCREMENT keeps here.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'transitions'
