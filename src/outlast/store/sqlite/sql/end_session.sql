UPDATE recovery_runs SET session_ended_at = :now
WHERE id = :id AND session_ended_at IS NULL
