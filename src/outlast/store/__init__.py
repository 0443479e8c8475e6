"""Where tasks live: one protocol at the level of domain verbs, one folder for each backend."""
