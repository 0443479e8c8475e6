-- Within one boot the monotonic clock decides, too: a wall clock that was set makes nobody silent.
SELECT name FROM workers INDEXED BY idx_heartbeats_timestamp
WHERE beat_at < :now - :stale_ms AND state = 'alive'
  AND (boot_id <> :boot_id OR beat_mono_ms < :mono - :stale_ms)
ORDER BY beat_at
LIMIT :limit
