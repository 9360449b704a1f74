"""Damaged input, made by machines: whatever it holds, a command ends with an answer or one line.

Each fuzzer is a module with a function ``fuzz(seed, seconds, count)`` that returns an ``Outcome``.
"""
