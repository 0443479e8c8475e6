-- Only a session of one's own: the number of a run that was never put on record may be another's.
UPDATE recovery_runs SET session_ended_at = :now
WHERE id = :id AND incarnation = :incarnation AND session_ended_at IS NULL
