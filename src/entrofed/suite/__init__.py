"""Many runs side by side: what their figures say, and how surely."""
