UPDATE workers SET state = 'left', ended_at = :now
WHERE seq = :row AND state = 'alive'
