"""Running graphs, and keeping what they leave within bounds."""
