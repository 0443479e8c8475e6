"""Putting back what the dead have left: who they are, what is done, and the record of it."""
