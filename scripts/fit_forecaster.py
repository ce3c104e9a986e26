"""Does what `tvwrl forecast` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("forecast")
