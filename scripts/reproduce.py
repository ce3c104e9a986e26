"""Does what `tvwrl reproduce` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("reproduce")
