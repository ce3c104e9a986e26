"""The results page: agents trained with several seeds on every trace, compared with all other schedulers."""

TITLE = "agents and DeepRM per trace and seed beside every heuristic at every load, as a page"
