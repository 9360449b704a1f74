"""Ways to compute the statistics of a source: one method, the same bits from each."""
