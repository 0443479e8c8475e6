-- Starts that found nothing are many, and must not push the last crash out of the record; nor the
-- session of one who serves on. Of those that never ended a few tell as much as all of them.
DELETE FROM recovery_runs
WHERE id <= :id - :kept
  AND id NOT IN (SELECT r.id FROM recovery_runs r WHERE r.has_findings
                 ORDER BY r.id DESC LIMIT :telling_kept)
  AND (session_ended_at IS NOT NULL
       OR id NOT IN (SELECT r.id FROM recovery_runs r
                     WHERE r.session_ended_at IS NULL
                       AND r.id >= (SELECT CAST(value AS INTEGER) FROM meta WHERE key = :key)
                     ORDER BY r.id LIMIT :telling_kept))
