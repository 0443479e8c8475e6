-- What a task records of itself shows that it goes on: crashes are counted anew from here.
UPDATE tasks SET crashes_in_row = 0, touched_at = :now WHERE seq = :seq
