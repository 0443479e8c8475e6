SELECT t.id FROM carray(:ids) c CROSS JOIN tasks t ON t.id = c.value
WHERE t.status IN ('pending', 'running')
