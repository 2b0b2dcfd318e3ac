# Runs one program with the device and reads its output.
import os
import re
import subprocess
import time

from command import RRDMA


class Running:
    """A program with the device, until the end of the block."""

    def __init__(self, *words, options=()):
        self.words, self.options = words, options

    def __enter__(self):
        self.process = subprocess.Popen([RRDMA, "run", *self.options, "--", *self.words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        bufsize=0)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.text = ""
        return self

    def await_text(self, wanted, seconds=20):
        end = time.monotonic() + seconds
        while not re.search(wanted, self.text):
            chunk = self.process.stdout.read()
            if chunk:
                self.text += chunk.decode()
                continue
            if time.monotonic() > end:
                raise AssertionError(f"not seen: {wanted}\n{self.text}")
            time.sleep(0.002)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
