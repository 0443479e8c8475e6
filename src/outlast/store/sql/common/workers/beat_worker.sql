UPDATE workers SET
    beat_at = :now,
    beat_mono_ms = :mono,
    serves = coalesce(:serves, serves),
    stuck = :stuck,
    progress = :progress,
    peak_memory_bytes = coalesce(:peak_memory_bytes, peak_memory_bytes)
WHERE seq = :row AND state = 'alive'
