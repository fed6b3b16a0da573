"""Live samples, from the bytes that bring them to the steps that a detector takes."""
