"""`python -m newnormal` is the `newnormal` command."""

from newnormal.cli import main

if __name__ == "__main__":
    main()
