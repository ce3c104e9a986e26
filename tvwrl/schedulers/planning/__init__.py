"""Planning: schedulers that look ahead in sampled or recorded futures, and what no schedule can beat."""
