SELECT 1 FROM groups WHERE id = :group
