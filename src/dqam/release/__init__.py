"""What is published: a release, its file, and what it can be turned into."""
