from .policies import open_policy as open_policy
