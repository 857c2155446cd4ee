"""Methods side by side on several federations: tuned alike, played with the same seeds, ranked."""
