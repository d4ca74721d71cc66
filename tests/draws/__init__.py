"""Random settings of operators for attribute_draws.py: what is drawn, how MXNet and gradc run it, which differences are known."""
