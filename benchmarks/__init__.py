"""One script a claim. Each compares with a named alternative on the same input in the same run and prints ratios."""
