SELECT max(peak_memory_bytes), min(oom_kills) FROM workers WHERE incarnation = :incarnation
