"""What a run of the graders found: the model, its store on disk, its face in a terminal."""
