PRAGMA wal_checkpoint(FULL)
