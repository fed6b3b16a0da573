"""newnormal: anomaly detection for live metrics that keeps learning what normal is."""

__version__ = "0.1.0"
