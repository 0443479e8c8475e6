-- Starts that found nothing are many, and must not push the last crash out of the record.
DELETE FROM recovery_runs
WHERE id <= :id - :kept
  AND id NOT IN (SELECT r.id FROM recovery_runs r WHERE r.has_findings
                 ORDER BY r.id DESC LIMIT :telling_kept)
