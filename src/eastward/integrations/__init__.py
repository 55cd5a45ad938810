"""Adapters to other frameworks, one thin file each, behind an extra of its name."""
