"""Does what `tvwrl size` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("size")
