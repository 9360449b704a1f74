"""The room estimate."""
