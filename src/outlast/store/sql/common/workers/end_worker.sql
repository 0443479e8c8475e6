UPDATE workers SET state = :state, ended_at = :now, stuck = NULL, progress = NULL
WHERE incarnation = :incarnation AND state = 'alive'
