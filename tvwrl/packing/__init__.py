"""The packing core: booked load over time and the one rule for "fits" that everything shares."""
