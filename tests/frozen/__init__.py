"""Today's behaviour, kept: what seeded studies release, and what their curator sees."""
