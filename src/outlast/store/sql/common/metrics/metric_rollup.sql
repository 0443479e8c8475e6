SELECT queue, kind, was, became, reason, actor, upto_ms, count, sum_ms FROM metric_rollup
