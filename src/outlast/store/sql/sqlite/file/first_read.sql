-- Opens the log and its index, so that their files can be remembered.
SELECT 1 FROM tasks LIMIT 1
