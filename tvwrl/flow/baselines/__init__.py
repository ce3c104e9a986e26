"""What paper 002 compares with: Tetris, Graphene, Medea and Firmament, each a `flow.problem.Planner`."""
