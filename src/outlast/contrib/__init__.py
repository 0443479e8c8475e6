"""Bridges to other tools, each behind an extra of its own."""
