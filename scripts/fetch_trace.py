"""Does what `tvwrl fetch` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("fetch")
