"""Does what `tvwrl evaluate` does."""

from tvwrl.cli import main

if __name__ == "__main__":
    main("evaluate")
