"""Experiments: running schedulers over sequences, rows, tables and plots."""
