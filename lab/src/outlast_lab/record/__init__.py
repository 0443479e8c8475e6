"""The record: what is asked of Outlast, call by call, and what it answers."""
