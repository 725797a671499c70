"""bench/pages.py on pages of its own: what it accepts, refuses and writes."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "pages.py")
FIGURES = {"messages": {"figures": {"8 B, ahead": 1.1449, "64 MB": 12345.6}, "output": ["size  ahead", " 8 B   1.14"]}}


class PagesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page, self.figures = os.path.join(folder.name, "page.md"), os.path.join(folder.name, "figures.json")
        with open(self.figures, "w") as file:
            json.dump(FIGURES, file)

    def check(self, text, *options):
        with open(self.page, "w") as file:
            file.write(text)
        result = subprocess.run([sys.executable, PAGES, "--figures", self.figures, "--strict", self.page, *options, "--", self.page],
                                capture_output=True, text=True, check=False)
        return result.returncode, result.stdout.replace(self.page, "page").strip()

    def test_a_figure_is_right_as_the_page_rounds_it(self):
        self.assertEqual(self.check("1.14<!-- messages: 8 B, ahead --> times, 1.1<!-- messages: 8 B, ahead -->x\n"), (0, ""))
        self.assertEqual(self.check("12,346<!-- messages: 64 MB --> us\n"), (0, ""))

    def test_another_figure_is_refused(self):
        self.assertEqual(self.check("\n1.15<!-- messages: 8 B, ahead -->\n"), (1, "page:2: 1.15, expected 1.14 (messages: 8 B, ahead)"))

    def test_a_figure_that_was_not_measured_is_refused(self):
        self.assertEqual(self.check("2<!-- messages: 9 B -->\n"), (1, 'page:1: 2: figures.json has no "9 B" of messages'))
        self.assertEqual(self.check("2<!-- nothing: 9 B -->\n"), (1, 'page:1: 2: figures.json has no "9 B" of nothing'))

    def test_a_bare_figure_is_refused_outside_of_code(self):
        expected = "page:1: 1.5 times: expected a comment <!-- part: name --> behind the number"
        self.assertEqual(self.check("1.5 times as fast\n"), (1, expected))
        self.assertEqual(self.check("three times, 64 MB\n```\n1.5 times, 80 %\n```\n"), (0, ""))

    def test_a_block_is_what_was_printed(self):
        self.assertEqual(self.check("<!-- output: messages -->\n```\nsize  ahead\n 8 B   1.14\n```\n"), (0, ""))
        self.assertEqual(self.check("<!-- output: messages -->\n```\nsize  ahead\n 8 B   9.99\n```\n"),
                         (1, "page:2: the block differs from the output of messages"))
        self.assertEqual(self.check("<!-- output: messages -->\n\n"), (1, "page:1: expected a code block in the next line"))
        self.assertEqual(self.check("<!-- output: sets -->\n```\n```\n"), (1, "page:1: figures.json has no sets"))

    def test_it_writes_what_was_measured_and_leaves_the_rest(self):
        before = "# 2\n9.99<!-- messages: 8 B, ahead --> of\n<!-- output: messages -->\n```\nold\n```\nend"
        self.assertEqual(self.check(before, "--write"), (0, ""))
        with open(self.page) as file:
            self.assertEqual(file.read(), "# 2\n1.14<!-- messages: 8 B, ahead --> of\n<!-- output: messages -->\n```\nsize  ahead\n"
                                          " 8 B   1.14\n```\nend")


if __name__ == "__main__":
    unittest.main()
