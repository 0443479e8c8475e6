-- Before the first transition there is no counter to raise.
INSERT INTO sqlite_sequence (name, seq)
SELECT 'transitions', 0
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'transitions')
