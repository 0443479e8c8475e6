INSERT INTO migrations (number, name, checksum, applied_at) VALUES (:number, :name, :checksum, :now)
