"""What a registered function is, what its calls store, and how one execution of it runs."""
