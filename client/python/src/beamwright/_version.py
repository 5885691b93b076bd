"""The version of the package, made by generate.py: do not edit."""

__version__ = "0.2.0"
