"""Does what `tvwrl reproduce` does."""

from tvwrl.cli import main

if __name__ == "__main__":
    main("reproduce")
