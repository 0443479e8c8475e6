SELECT kind, status, count(*), avg(:now - created_at) / 3600000.0
FROM tasks
GROUP BY kind, status
ORDER BY kind, status
