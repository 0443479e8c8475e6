-- A cursor never falls back, should two ever deliver under one name; and who delivered under a name
-- that was forgotten meanwhile does not move the cursor of whoever began it anew.
UPDATE cursors
SET pos = :pos, task_seq = :task_seq, forgotten = max(forgotten, :forgotten),
    moved_at = max(moved_at, :now)
WHERE name = :name AND born = :born AND pos <= :pos AND task_seq <= :task_seq
