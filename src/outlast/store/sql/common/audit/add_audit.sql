INSERT INTO audit (at, actor, source, action, status, subject, run_id, data)
VALUES (:now, :actor, :source, :action, :status, :subject, :run_id, :data)
