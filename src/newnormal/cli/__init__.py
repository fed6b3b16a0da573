"""The command line. Data goes to standard output, everything else to standard error."""

__all__ = ["main"]


def main() -> None:
    """Run the `newnormal` command."""
    from newnormal.cli.app import run

    run()
