DELETE FROM locks WHERE holder IN (SELECT seq FROM workers WHERE incarnation = :incarnation)
