"""The room core."""
