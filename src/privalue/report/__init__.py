"""What people look at: tables on the terminal, pictures, a commented study file."""

from privalue.report._plan_words import paragraph, verdict

__all__ = ["paragraph", "verdict"]
