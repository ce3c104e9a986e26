"""Does what `tvwrl interference` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("interference")
