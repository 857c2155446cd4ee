"""What protects clients: noise on what they release."""
