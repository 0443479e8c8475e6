"""What a signal is called."""

import signal


def signal_name(number: int) -> str:
    """SIGKILL rather than 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
