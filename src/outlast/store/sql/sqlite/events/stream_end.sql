-- The counters never fall, also where the newest rows are gone.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'transitions'), 0),
       coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'tasks'), 0)
