"""scripts/run_tests.py counts right: passes, failures, skips, crashes, hangs, and nothing at all."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

GOOD = """
echo '[==========] Running 2 tests from 1 test suite.'
echo '[ RUN      ] A.one'
echo '[       OK ] A.one (0 ms)'
echo '[ RUN      ] A.two'
printf 'text without an end[       OK ] A.two (0 ms)\\n'
echo '[==========] 2 tests from 1 test suite ran. (0 ms total)'
"""
BAD = """
echo '[==========] Running 3 tests from 1 test suite.'
echo '[ RUN      ] B.one'
echo '[       OK ] B.one (0 ms)'
echo '[ RUN      ] B.two'
echo 'expected 1, got 2'
echo '[  FAILED  ] B.two (0 ms)'
echo '[ RUN      ] B.three'
echo 'x.cc:7: Skipped'
echo 'no data here'
echo '[  SKIPPED ] B.three (0 ms)'
echo '[==========] 3 tests from 1 test suite ran. (0 ms total)'
echo '[  FAILED  ] B.two'
exit 1
"""
CRASH = """
echo '[==========] Running 5 tests from 1 test suite.'
echo '[ RUN      ] C.one'
echo '[       OK ] C.one (0 ms)'
echo '[ RUN      ] C.two'
echo 'about to go'
kill -SEGV $$
"""
HANG = "echo '[==========] Running 1 test from 1 test suite.'\necho '[ RUN      ] D.one'\nsleep 60\n"
EMPTY = "echo '[==========] Running 0 tests from 0 test suites.'\necho '[==========] 0 tests from 0 test suites ran.'\n"


class RunTests(unittest.TestCase):
    def run_on(self, *options, **programs):
        with tempfile.TemporaryDirectory() as folder:
            tests = pathlib.Path(folder) / "tests"
            tests.mkdir()
            for name, text in programs.items():
                path = tests / f"test_{name}"
                path.write_text("#!/bin/bash\n" + text)
                path.chmod(0o755)
            got = subprocess.run([sys.executable, str(ROOT / "scripts/run_tests.py"), "--build", folder, "--no-scripts", *options],
                                 capture_output=True, text=True, check=False)
        return got.returncode, got.stdout, got.stdout.splitlines()[-1]

    def test_all_pass(self):
        self.assertEqual(self.run_on(good=GOOD)[0::2], (0, "2 passed, 0 failed"))

    def test_failures_and_skips(self):
        status, output, last = self.run_on(good=GOOD, bad=BAD)
        self.assertEqual((status, last), (1, "3 passed, 1 failed, 1 skipped"))
        self.assertIn("FAILED test_bad: B.two\nexpected 1, got 2", output)
        self.assertIn("skipped test_bad: B.three: no data here", output)

    def test_a_crash_fails_what_it_kept_from_running(self):
        status, output, last = self.run_on(crash=CRASH)
        self.assertEqual((status, last), (1, "1 passed, 4 failed"))
        self.assertIn("killed by SIGSEGV in C.two; 4 tests had no result\nabout to go", output)

    def test_a_hang_ends(self):
        status, output, last = self.run_on("--timeout", "1", hang=HANG)
        self.assertEqual((status, last), (1, "0 passed, 1 failed"))
        self.assertIn("ran longer than 1 s in D.one", output)

    def test_a_bad_end_after_good_tests(self):
        self.assertEqual(self.run_on(good=GOOD + "exit 3\n")[0::2], (1, "2 passed, 1 failed"))

    def test_nothing_to_run(self):
        status, output, last = self.run_on()
        self.assertEqual((status, last), (1, "0 passed, 0 failed"))
        self.assertIn("no test was run", output)
        self.assertEqual(self.run_on(empty=EMPTY)[0::2], (1, "0 passed, 0 failed"))

    def test_an_unknown_folder(self):
        self.assertEqual(self.run_on("nonsense", good=GOOD)[0], 2)
        self.assertEqual(self.run_on("good", good=GOOD, bad=BAD)[0::2], (0, "2 passed, 0 failed"))


if __name__ == "__main__":
    unittest.main()
