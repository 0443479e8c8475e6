SELECT count(*) FROM recovery_runs WHERE completed_at IS NOT NULL AND id > :id AND NOT has_findings
