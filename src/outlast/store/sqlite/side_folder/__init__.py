"""The folder beside the database: locks, markers and sockets of its users."""
