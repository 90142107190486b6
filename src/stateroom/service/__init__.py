"""What each resource means above storage: what callers may ask, and what becomes of it."""
