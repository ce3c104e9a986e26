"""What the Aladdin+H paper compares with: Tetris, Graphene, Medea and Firmament, each a `planning.problem.Planner`."""
