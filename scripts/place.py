"""Does what `tvwrl place` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("place")
