-- A cursor never falls back, should two ever deliver under one name.
UPDATE cursors
SET pos = :pos, task_seq = :task_seq, forgotten = max(forgotten, :forgotten),
    moved_at = max(moved_at, :now)
WHERE name = :name AND pos <= :pos AND task_seq <= :task_seq
