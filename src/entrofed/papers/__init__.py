"""The papers: what they report, the runs that reproduce it, and what came of them."""
