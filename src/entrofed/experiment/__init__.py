"""One experiment: its file, what is built from it, the runner, and the folder it leaves."""
