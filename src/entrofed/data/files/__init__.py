"""Readers of the user's own files, one module per kind of file."""
