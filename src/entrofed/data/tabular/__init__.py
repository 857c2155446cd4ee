"""Tables of numbers and categories, read in batches and turned into features."""
