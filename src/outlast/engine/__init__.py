"""What the queue does, in the order of the data: enqueue, claim, settle, heal."""
