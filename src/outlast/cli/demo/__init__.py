"""`outlast demo`: a worker is killed before your eyes, and the next one goes on."""
