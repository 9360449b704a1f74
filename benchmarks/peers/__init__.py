"""Other libraries at our task: ``python -m benchmarks.peers``; see docs/peers.md.

Each library runs in an environment of its own, as ``python -m benchmarks.peers.NAME TASK RESULT``.
Nothing is imported here, and ``exchange`` needs the standard library only, so that none of them
has to have our dependencies, nor we theirs.
"""
