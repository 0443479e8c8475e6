-- What is still there of a part of the stream.
SELECT (SELECT count(*) FROM transitions WHERE pos > :from_pos AND pos <= :to_pos)
           + (SELECT count(*) FROM events WHERE pos > :from_pos AND pos <= :to_pos),
       (SELECT count(*) FROM tasks WHERE seq > :from_seq AND seq <= :to_seq)
