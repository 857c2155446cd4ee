"""What a program or a notebook calls; :mod:`entrofed` gathers the names."""
