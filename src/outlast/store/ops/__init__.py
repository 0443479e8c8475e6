"""What Outlast does to a database, one noun a file, the same for every engine."""
