"""What a policy is worth, told privately."""

__version__ = "0.1.0"
