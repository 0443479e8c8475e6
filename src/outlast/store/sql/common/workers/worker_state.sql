SELECT state FROM workers WHERE seq = :seq
