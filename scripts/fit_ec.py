"""Does what `tvwrl classes` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("classes")
