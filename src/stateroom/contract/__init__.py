"""What a storage driver must do: abstract classes whose docstrings are the specification."""
