"""A simulated cluster of services and batch work: its response times follow a law that no score or scheduler sees."""
