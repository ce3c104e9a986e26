"""Does what `tvwrl tune` does."""

from tvwrl.commands import main

if __name__ == "__main__":
    main("tune")
