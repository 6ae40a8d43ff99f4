"""The command line. Each file registers the commands of one subject."""
