"""The results page: agents trained with several seeds on every trace, compared with all other schedulers."""
