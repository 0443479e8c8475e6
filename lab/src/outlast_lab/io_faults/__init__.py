"""`lab io`: the calls that a store makes to the operating system fail, one after the other.

For each operation of each life, the nth call of each kind fails: with an error, for want of space,
by half, or by being done and reported as failed; once, or from then on until it is lifted. Then the
same process must go on. Besides, real file systems are filled to the last byte.
"""

from outlast_lab.io_faults.running import fail_calls, run

__all__ = ["fail_calls", "run"]
