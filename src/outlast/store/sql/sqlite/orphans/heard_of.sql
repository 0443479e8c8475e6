-- Whether an incarnation gave a sign of life lately: by a beat, or by renewing a lease.
SELECT 1 FROM workers w
WHERE w.incarnation = :incarnation
  AND (CASE w.boot_id WHEN :boot_id THEN w.beat_mono_ms >= :mono - :patience_ms
                      ELSE w.beat_at >= :now - :patience_ms END
       OR EXISTS (SELECT 1 FROM tasks t
                  WHERE t.holder = w.seq AND t.status = 'running'
                    AND t.heartbeat_at >= :now - :patience_ms))
LIMIT 1
