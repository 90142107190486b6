"""What travels in bodies: the only modules that know the field names of the SDKs."""
