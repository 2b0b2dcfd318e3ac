# Checks the reference of rrdma::comm: Doxygen reads every header, and every type and free function is documented.
# Arguments: the command (unused), the source tree.
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[2])


class Reference(unittest.TestCase):
    def test_every_type_and_function_is_described(self):
        with tempfile.TemporaryDirectory() as folder:
            settings = (SOURCE / "docs/Doxyfile").read_text() + f"\nOUTPUT_DIRECTORY = {folder}\n"
            done = subprocess.run(["doxygen", "-"], input=settings, cwd=SOURCE, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            pages = list(pathlib.Path(folder).rglob("class*Endpoint.html"))
            self.assertTrue(pages, "no page for Endpoint")
            self.assertIn("Waits until the peer", pages[0].read_text(), "comments are not read")
        missing = [line for line in done.stderr.splitlines()
                   if re.search(r"Compound .* is not documented|\((function|variable|enumeration|typedef)\) of namespace .* is not documented", line)
                   and "/comm/" in line and "::Child::" not in line]
        self.assertEqual(missing, [], "\n".join(missing))


if __name__ == "__main__":
    if not shutil.which("doxygen"):
        print("doxygen is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
