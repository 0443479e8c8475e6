"""What is measured: each module is one scenario, and hands its rows to the report."""
