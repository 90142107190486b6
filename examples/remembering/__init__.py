"""The parts of the demo ``remember.py``: its script, its agent, its processes and its report."""
