"""Does what `tvwrl train` does."""

from tvwrl.cli import main

if __name__ == "__main__":
    main("train")
