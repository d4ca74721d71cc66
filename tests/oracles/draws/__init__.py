"""Random settings of operators for attribute_draws.py and torch_draws.py: what is drawn, who judges, which differences are known."""
