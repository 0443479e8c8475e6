"""Benchmarks: each module measures one thing and prints a table; `./run bench NAME` runs it."""
