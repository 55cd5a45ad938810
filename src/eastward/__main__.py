"""``python -m eastward``: the command line where its script is not on the path."""

from eastward.cli import main

if __name__ == "__main__":
    main()
