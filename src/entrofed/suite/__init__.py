"""Many runs: how they are planned and played, what their results say side by side, and how surely."""
