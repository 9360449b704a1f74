"""``python -m privalue``: the command line."""

from privalue.cli import main

if __name__ == "__main__":
    main()
