"""The results page: agents trained with several seeds on every trace, beside all other schedulers."""
