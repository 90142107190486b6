"""Drivers: each puts one storage behind the contracts."""
