"""Run the command line with ``python -m k2ktui``."""

from k2ktui.cli.main import main

if __name__ == "__main__":
    main()
