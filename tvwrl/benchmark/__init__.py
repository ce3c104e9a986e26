"""Named tasks that never change, and tables that compare any scheduler with ours on them (docs/reference/tasks.md)."""
