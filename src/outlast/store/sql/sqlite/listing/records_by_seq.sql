SELECT r.* FROM carray(:seqs) c CROSS JOIN task_records r ON r.seq = c.value
