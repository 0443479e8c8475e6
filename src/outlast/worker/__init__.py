"""The worker: claims tasks, runs their functions, settles them."""
