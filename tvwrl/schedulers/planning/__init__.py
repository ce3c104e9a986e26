"""Planning: schedulers that look ahead in sampled or recorded futures, and a bound that no schedule can beat."""
