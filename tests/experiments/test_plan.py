"""The runs that figures need."""

from dqam.experiments.plan import FIGURES, ExperimentPlan, Settings


def test_every_figure_of_the_paper_fits_the_settings() -> None:
    full, quick = Settings(), Settings.quick()
    assert full.sizes == (1_000, 100_000, 1_000_000)
    assert (full.queries, full.resolution, full.runs) == (16_000, 8, 5)
    for settings in (full, quick):
        assert settings.queries in settings.query_counts
        assert settings.resolution in settings.resolutions


def test_claims_need_the_runs_of_all_figures(tiny: Settings) -> None:
    plan = ExperimentPlan(tiny, "city", "city-uniform")
    assert plan.tasks("claims") == set().union(*(plan.tasks(figure) for figure in FIGURES if figure != "claims"))
    assert all(task.alone for task in plan.tasks("time"))
