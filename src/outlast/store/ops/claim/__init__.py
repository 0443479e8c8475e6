"""A claim: which rows it picks, how it hands them out, what it says in the log."""
