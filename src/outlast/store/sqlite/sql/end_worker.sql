UPDATE workers SET state = :state, ended_at = :now
WHERE incarnation = :incarnation AND state = 'alive'
