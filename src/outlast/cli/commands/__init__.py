"""One module for each group of commands, loaded when it is asked for."""
