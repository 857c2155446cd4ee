"""A Flower app with a training loop of its own, whose server can choose clients by entropy."""
