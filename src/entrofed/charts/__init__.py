"""Every chart, once: the terminal, the report and --plot draw with these."""
