"""What of the site is generated, and from what: the manifest, the graders, the command line."""
