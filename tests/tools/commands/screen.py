# Runs a command in a terminal of a given size (tmux with its own server), reads the screen and sends keys.
import os
import subprocess
import tempfile

import surroundings


class Screen:
    def __init__(self, *words, columns=80, lines=24):
        self.folder = tempfile.TemporaryDirectory(prefix="rrdma-tmux.")
        self.socket = os.path.join(self.folder.name, "socket")
        # The status stays visible after the command has ended.
        script = "trap : INT; " + " ".join(f"'{word}'" for word in map(str, words)) + "; echo ended with $?; sleep 60"
        self._tmux("new-session", "-d", "-x", str(columns), "-y", str(lines), script)

    def _tmux(self, *words):
        return subprocess.run(["tmux", "-f", "/dev/null", "-S", self.socket, *words], check=True, capture_output=True, text=True).stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True)
        self.folder.cleanup()

    def text(self):
        return self._tmux("capture-pane", "-p")

    def press(self, *keys):
        self._tmux("send-keys", *keys)

    def wait_for(self, condition, seconds=15):
        """The screen once `condition(text)` is true."""
        try:
            return surroundings.wait_for(lambda: (lambda text: text if condition(text) else None)(self.text()), seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen shows:\n{self.text()}") from None
