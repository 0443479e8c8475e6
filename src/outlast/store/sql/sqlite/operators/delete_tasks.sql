DELETE FROM tasks WHERE seq IN (SELECT value FROM carray(:seqs))
