DELETE FROM cursors WHERE name = :name
