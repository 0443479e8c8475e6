"""Who lives: this process's own sign of life, its peers, and news of their exits."""
