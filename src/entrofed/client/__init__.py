"""What happens at a client: its data, its model, local training, evaluation."""
