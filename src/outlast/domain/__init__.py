"""Pure rules: what a task is and how it may move. No I/O, no clock reads."""
