DELETE FROM locks WHERE name = :name AND token = :token
