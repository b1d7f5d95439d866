"""The version of the package, apart so that a build reads it without TensorFlow."""

__version__ = "0.1.0"
