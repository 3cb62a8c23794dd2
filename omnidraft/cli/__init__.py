"""The command line: one module per command, each with `add_arguments(parser)` and `run(args) -> exit code`."""
