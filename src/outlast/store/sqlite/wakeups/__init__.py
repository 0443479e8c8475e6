"""Hints after a commit, so that whoever waits need not poll often."""
