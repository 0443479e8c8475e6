"""Zombies: holders that were stopped past their leases, were replaced, and come back."""
