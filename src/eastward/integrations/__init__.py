"""Adapters to other frameworks: one thin file each, with an extra of the same name."""
