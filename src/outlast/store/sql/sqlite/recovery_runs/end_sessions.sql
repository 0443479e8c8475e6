-- Those of the crashed, by whoever has recovered from it: where their markers go, these end too.
UPDATE recovery_runs SET session_ended_at = :now
WHERE session_ended_at IS NULL
  AND incarnation IN (SELECT value FROM json_each(:incarnations))
