"""Lower bounds on the number of machines that plans of an instance need."""
