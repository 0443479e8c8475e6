SELECT started_at, crashed_at FROM recovery_runs WHERE id = :id
