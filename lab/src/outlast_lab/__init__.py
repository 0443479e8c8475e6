"""The fault laboratory: breaks Outlast on purpose, on the user's own disk, and judges what is left.

An experiment drives the queue through a `Witness`, which writes down every call and its answer.
It then does harm, reads the store with a tool that shares no code with Outlast, and holds the one
against the other by the invariants, which are written once for all experiments.
"""
