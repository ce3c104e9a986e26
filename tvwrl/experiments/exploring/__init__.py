"""The explorer of an evaluation or a plan: what it shows, how it is made again, and the command."""
