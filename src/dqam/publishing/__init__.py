"""From trips to a release: the plan, the one pipeline that carries it out, and a forecast of its error."""
