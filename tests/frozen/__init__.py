"""Recorded results of seeded studies: releases, and what their curator sees."""
