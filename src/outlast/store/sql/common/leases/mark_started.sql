UPDATE tasks SET unstarted = 0
WHERE seq = :seq AND holder = :holder AND token = :token AND status = 'running'
