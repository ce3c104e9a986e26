"""From published files to the canonical trace: rows -> parts -> series -> trace and report."""
