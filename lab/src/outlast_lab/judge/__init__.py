"""The judge: what a store holds, and the invariants by which record and store are compared."""
