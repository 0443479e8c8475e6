DELETE FROM locks
WHERE name = :name AND holder = :row AND token = :token
  AND CASE (SELECT boot_id FROM workers WHERE seq = :row)
      WHEN :boot_id THEN expires_mono_ms > :mono ELSE expires_at > :now END
