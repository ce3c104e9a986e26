"""What fits: the one rule, load booked ahead, the compiled loops of planners, and lower bounds on machines."""
