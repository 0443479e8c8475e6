UPDATE workers SET
    beat_at = :now,
    beat_mono_ms = :mono,
    serves = coalesce(:serves, serves),
    stuck = :stuck,
    progress = :progress
WHERE seq = :row AND state = 'alive'
