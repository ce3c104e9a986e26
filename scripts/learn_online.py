"""Does what `tvwrl learn-online` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("learn-online")
