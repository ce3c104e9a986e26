"""Does what `tvwrl provision` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("provision")
