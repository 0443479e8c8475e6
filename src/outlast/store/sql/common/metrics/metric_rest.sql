-- What is not summed up yet, up to a position; grouped as the rollup is.
SELECT queue, kind, was, became, reason, actor, upto_ms, count(*), sum(ms), min(pos)
FROM metric_marks
WHERE pos > :folded AND pos <= :upto
GROUP BY queue, kind, was, became, reason, actor, upto_ms
