"""An episode, or a plan, in one HTML file: what happened, why, and what every alternative would have cost."""
