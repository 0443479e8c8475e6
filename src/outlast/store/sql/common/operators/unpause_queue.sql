DELETE FROM queues WHERE name = :queue
