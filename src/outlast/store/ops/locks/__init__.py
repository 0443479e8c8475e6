"""Named locks: taken, extended, given back, and freed when their holders are dead."""
