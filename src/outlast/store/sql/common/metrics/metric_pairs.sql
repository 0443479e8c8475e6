SELECT queue, kind FROM metric_pairs
