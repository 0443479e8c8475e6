UPDATE workers SET state = 'left', ended_at = :now, stuck = NULL, progress = NULL
WHERE seq = :row AND state = 'alive'
