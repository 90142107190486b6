"""The conformance suite with which a store proves that it means what every Stateroom store means."""
