"""EntroFed: federated learning that chooses and weighs clients by the information they hold."""

__version__ = "0.2.0"
