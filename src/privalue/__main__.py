"""``python -m privalue``: the command line."""

from privalue.cli._app import main

if __name__ == "__main__":
    main()
