"""Chaos: many processes work on one store while they are killed, stopped, continued, restarted."""
