"""Speed: what newnormal costs, beside what the same work costs in PyTorch.

``python -m benchmarks`` measures everything in one run, prints it, and writes docs/benchmarks.md.
"""
