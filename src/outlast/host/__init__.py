"""What the kernel tells: processes, memory, locks, mounts; and the probe points of tests."""
