"""`python -m relayvm` is the command `relayvm`."""

from relayvm.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
