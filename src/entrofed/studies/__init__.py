"""Small studies: selection, topologies, adversarial clients."""
