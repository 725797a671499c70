"""Every program in docs/python.md runs."""

import os
import re
import subprocess
import sys

import pytest
import torch

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python.md")
PROGRAMS = re.findall(r"```python\n(.*?)```", open(PAGE, encoding="utf-8").read(), re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_programs_run(program, tmp_path):
    if "c10d" in program and torch.__version__.startswith("1."):
        pytest.skip("torch 1 takes no backends")
    if "keras" in program:
        pytest.importorskip("sullae.keras")
    file = tmp_path / "program.py"
    file.write_text(program)
    ended = subprocess.run(
        ["sullae", "run", "-np", "2", sys.executable, str(file)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len(ended.stdout.splitlines()) == 2


def test_the_page_has_programs():
    assert len(PROGRAMS) == 6
