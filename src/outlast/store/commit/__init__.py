"""The commit queue: many callers, one transaction."""
