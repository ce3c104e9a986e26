"""Does what `tvwrl population` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("population")
