"""Damaged input, made by machines: privalue reads it, or refuses it in one line."""
