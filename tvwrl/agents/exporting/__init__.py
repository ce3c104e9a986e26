"""Policies in files that need no training code: writing them, checking them, and deciding with them."""
