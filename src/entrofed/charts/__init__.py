"""Every chart, once: the report, ``--plot`` and the page of results draw them."""
