INSERT INTO metric_rollup (queue, kind, was, became, reason, actor, upto_ms, count, sum_ms)
VALUES (:queue, :kind, :was, :became, :reason, :actor, :upto_ms, :number, :sum_ms)
ON CONFLICT DO UPDATE SET count = count + excluded.count, sum_ms = sum_ms + excluded.sum_ms
