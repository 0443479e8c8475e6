"""Outlast, the object users hold, and its verbs by noun."""
