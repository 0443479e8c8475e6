"""Misuse: what programs and people do to a store that nobody should, and what must happen then."""
