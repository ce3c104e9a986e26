"""Hyper-parameter search by many short trainings."""
