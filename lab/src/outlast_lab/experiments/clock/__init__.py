"""Clocks that are wrong: set forward and back, namespaced, standing still, slept through."""
