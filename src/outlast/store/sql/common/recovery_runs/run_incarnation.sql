SELECT incarnation FROM recovery_runs WHERE id = :id
