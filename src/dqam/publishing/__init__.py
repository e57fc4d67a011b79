"""Publishing trips as a release: the plan, the pipeline that carries it out, and a forecast of its error."""
