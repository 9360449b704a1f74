"""The room study."""
