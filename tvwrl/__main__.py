"""`python -m tvwrl` is the command `tvwrl`."""

from tvwrl.cli import main

if __name__ == "__main__":
    main()
