"""Rules that move what runs; see `base` for how they are combined with rules that place."""
