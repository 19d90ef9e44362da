"""Describe an experiment: the model of a YAML spec (model.py) and its loader (`load_spec` in loader.py)."""
