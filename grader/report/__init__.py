"""What a run of the graders found: the model, its store on disk, how a terminal shows it."""
