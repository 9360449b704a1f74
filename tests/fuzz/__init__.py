"""Damaged input, made by machines: a command accepts it, or refuses it in one line.

Each fuzzer is a module with a function ``fuzz(seed, seconds, count)`` that returns an ``Outcome``.
"""
