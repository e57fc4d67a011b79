"""How results are measured, and the forms of the literature that are compared with."""
