-- Only by its holder, only while it is held, and never to an earlier end.
UPDATE locks SET expires_at = max(expires_at, :now + :ttl_ms),
                 expires_mono_ms = max(expires_mono_ms, :mono + :ttl_ms)
WHERE name = :name AND holder = :row AND token = :token
  AND CASE (SELECT boot_id FROM workers WHERE seq = :row)
      WHEN :boot_id THEN expires_mono_ms > :mono ELSE expires_at > :now END
