"""The stage: processes in which experiments play their cases.

A fork server has imported everything and opened nothing. It does what it is asked over a wire, one
request after another, and forks for whatever opens a store, so that a real process with its own
pid, locks and incarnation costs some milliseconds instead of the start of an interpreter.
"""
