"""Does what `tvwrl evaluate` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("evaluate")
