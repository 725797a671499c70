"""The record of a run, as the dashboard reads it."""

import json

import pytest

import sullae


def record(folder):
    return json.loads((folder / "run.json").read_text())


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_is_written_as_it_goes(tmp_path):
    folder = tmp_path / "some" / "run"
    with sullae.RunLog(folder, settings={"lr": 0.1, "nesterov": True}, ranks=2) as log:
        log.expect_steps(20)
        log.scalars(10, {"train/loss": 0.5})
        assert [line["step"] for line in lines(folder)] == [10]
        assert "ended" not in record(folder)
        log.note("그만")
        log.scalars(20, {"train/loss": float("nan")})
    kept = record(folder)
    assert kept["ended"]["how"] == "completed"
    assert kept["settings"] == {"lr": "0.1", "nesterov": "True"}
    assert (kept["name"], kept["ranks"], kept["step"], kept["steps"]) == ("run", 2, 20, 20)
    assert lines(folder)[2]["train/loss"] == "nan"
    with pytest.raises(ValueError, match="the run was closed"):
        log.note("late")


def test_what_is_thrown_is_why_it_failed(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with sullae.RunLog(tmp_path / "a"):
            1 / 0  # noqa: B018
    assert record(tmp_path / "a")["ended"]["reason"] == "ZeroDivisionError: division by zero"
    with pytest.raises(KeyboardInterrupt):
        with sullae.RunLog(tmp_path / "b"):
            raise KeyboardInterrupt
    ended = record(tmp_path / "b")["ended"]
    assert (ended["how"], ended["reason"]) == ("stopped", "KeyboardInterrupt")


def test_a_run_is_gone_on_with_where_that_is_said(tmp_path):
    with sullae.RunLog(tmp_path) as log:
        log.scalars(1, {"loss": 1})
    with pytest.raises(sullae.InputError, match="there is a run in it already"):
        sullae.RunLog(tmp_path)
    with sullae.RunLog(tmp_path, resume=True) as log:
        log.scalars(2, {"loss": 2})
    with sullae.RunLog(tmp_path, resume=True) as log:
        log.goes_on_after(1)
        log.scalars(2, {"loss": 3})
    said = [(line["step"], line.get("loss"), line.get("goes_on")) for line in lines(tmp_path)]
    assert said == [(1, 1, None), (1, None, True), (2, 2, None), (1, None, True), (2, 3, None)]
    with pytest.raises(sullae.InputError, match="step -1"):
        with sullae.RunLog(tmp_path, resume=True) as log:
            log.scalars(-1, {"loss": 1})
