DELETE FROM recovery_runs WHERE id <= :id - :kept
