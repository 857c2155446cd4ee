"""The tables of an experiment file, one a file."""
