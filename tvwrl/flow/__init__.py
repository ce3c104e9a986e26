"""Aladdin+H (paper 002): tasks flow through groups of like machines to machines, none split, no constraint broken."""
