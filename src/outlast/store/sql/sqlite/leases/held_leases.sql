SELECT t.seq, t.holder, t.token
FROM carray(:seqs) c CROSS JOIN tasks t ON t.seq = c.value
WHERE t.status = 'running'
