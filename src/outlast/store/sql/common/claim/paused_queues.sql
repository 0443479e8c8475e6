SELECT name FROM queues
