"""Measurements of Stateroom beside the stores that people use today."""
