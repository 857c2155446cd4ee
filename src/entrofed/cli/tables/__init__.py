"""What the commands print, by subject."""
