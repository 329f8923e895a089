"""What is shown before a run: the stages of setting up, by name and in order."""

import dalembert as da
from dalembert.engine import progress


def test_setting_up_shows_its_stages_and_makes_way_for_the_run(monkeypatch, capsys):
    seen = []
    show = progress.Bar.show

    def looked(bar, done, elapsed=None):
        seen.append((bar.verb, done))
        show(bar, done, elapsed)

    monkeypatch.setattr(progress.Bar, "show", looked)
    da.simulate(da.catalog.net(12, 12), "rattle", t_end=0.02, step=0.01, progress=True, compile=False)
    before = list(dict.fromkeys(verb for verb, _ in seen))
    assert before == [*(f"setting up: {name}" for name in progress.STAGES[:4]), "simulating"]
    done = [count for verb, count in seen if verb != "simulating"]
    assert done == sorted(done)
    assert "2/2 steps" in capsys.readouterr().err


def test_nothing_is_shown_where_nobody_looks(capsys):
    da.simulate(da.catalog.double_pendulum(), "rattle", t_end=0.02, step=0.01)
    progress.stage("slopes")
    progress.ready()
    assert capsys.readouterr().err == ""
