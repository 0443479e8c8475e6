-- As AUTOINCREMENT would choose it, also where foreign hands have taken its counter away.
SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'recovery_runs'), 0),
           coalesce((SELECT max(id) FROM recovery_runs), 0)) + 1
