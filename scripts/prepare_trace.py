"""Does what `tvwrl prepare` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("prepare")
