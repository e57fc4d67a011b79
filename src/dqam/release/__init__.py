"""Releases, which are what is published: their files, answers, exports and reports."""
