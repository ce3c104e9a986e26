"""Does what `tvwrl train` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("train")
