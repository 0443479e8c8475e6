SELECT s.* FROM carray(:seqs) c CROSS JOIN task_situations s ON s.seq = c.value
