"""What things are: frozen values and pure rules, without any input or output."""
