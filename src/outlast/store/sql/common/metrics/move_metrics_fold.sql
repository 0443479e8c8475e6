-- Guarded by the position it was read from: what somebody else has summed up meanwhile stays once.
UPDATE counters SET value = :upto WHERE name = 'metrics_folded' AND value = :folded
