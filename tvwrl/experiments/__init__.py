"""Experiments: cells that are measured once and kept, and what is made of them: statistics, tables, plots, pages."""
