"""``python -m entrofed``: the command, for where it is not on the path."""

if __name__ == "__main__":
    from entrofed.cli.main import main

    main()
