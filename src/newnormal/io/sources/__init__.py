"""Sources of samples: `base` has the class to derive from, each other file one kind of input."""
