"""Does what `tvwrl benchmark` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("benchmark")
