UPDATE workers SET beat_at = :now, beat_mono_ms = :mono WHERE seq = :row AND state = 'alive'
