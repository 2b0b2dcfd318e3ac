"""A guest: one QEMU process that booted an image, and programs that run in it.

Requests go as numbers over a virtio port. Scripts, their output and exit codes go through a folder that
host and guest share by 9p. Everything has a time limit."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import machine

BOOT_SECONDS = 240
GRACE_SECONDS = 10
ASK_AGAIN_SECONDS = 5  # for a request that has not started; the guest ignores duplicates


class GuestDied(Exception):
    pass


class Request:
    """A script that runs, or ran, in the guest."""

    def __init__(self, guest, number):
        self.guest, self.number = guest, number
        self.base = guest.share / str(number)
        self.ask_again_at = time.monotonic() + ASK_AGAIN_SECONDS

    @property
    def output(self):
        path = self.base.with_suffix(".out")
        return path.read_text(errors="replace") if path.exists() else ""

    def exit_code(self):
        """Returns None while the script runs."""
        path = self.base.with_suffix(".rc")
        if path.exists():
            return int(path.read_text())
        self.guest.check_alive()
        if time.monotonic() > self.ask_again_at and not self.base.with_suffix(".out").exists():
            self.ask_again_at = time.monotonic() + ASK_AGAIN_SECONDS
            self.guest.ask_for(self.number)
        return None

    def is_up(self):
        """Says whether the server in it listens (Guest.start_server)."""
        return self.base.with_suffix(".up").exists()

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            code = self.exit_code()
            if code is not None:
                return code
            time.sleep(0.02)
        return None


class Guest:
    def __init__(self, image, folder, tap, address4, address6, mtu, processors=1):
        self.image, self.folder = image, Path(folder)
        self.share = self.folder / "share"
        self.tap, self.address4, self.address6, self.mtu = tap, address4, address6, mtu
        self.processors = processors
        self.next_number = 1
        self.qemu = None
        self.boot_seconds = 0.0

    # --- life -----------------------------------------------------------------------------------------

    def command(self):
        here = machine.here()
        append = (f"console={here.console} quiet loglevel=4 panic=-1 mitigations=off net.ifnames=0 {here.append} "
                  f"ip4={self.address4}/24 ip6={self.address6}/64 mtu={self.mtu}")
        mac = "02:77:00:00:00:" + format(int(self.address4.rsplit(".", 1)[1]), "02x")
        return [here.qemu, *here.machine, *machine.acceleration(), "-smp", str(self.processors), "-m", "1G",
                "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
                "-kernel", str(self.image.kernel), "-initrd", str(self.image.initrd), "-append", append,
                "-serial", f"file:{self.folder / 'console.log'}",
                "-netdev", f"tap,id=net,ifname={self.tap},script=no,downscript=no",
                "-device", f"virtio-net-pci,netdev=net,mac={mac},host_mtu={self.mtu},romfile=",
                "-device", "virtio-rng-pci",
                "-fsdev", f"local,id=share,path={self.share},security_model=none",
                "-device", "virtio-9p-pci,fsdev=share,mount_tag=share",
                "-device", "virtio-serial-pci",
                "-chardev", f"socket,id=requests,path={self.folder / 'requests'},server=on,wait=off",
                "-device", "virtserialport,chardev=requests,name=requests"]

    def start(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.share.mkdir(parents=True)
        begin = time.monotonic()
        with open(self.folder / "qemu.log", "wb") as log:
            self.qemu = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not (self.share / "ready").exists():
            self.check_alive()
            if time.monotonic() - begin > BOOT_SECONDS:
                raise GuestDied("it did not boot: " + self.last_words())
            time.sleep(0.1)
        self.port = socket.socket(socket.AF_UNIX)
        self.port.connect(str(self.folder / "requests"))
        self.boot_seconds = time.monotonic() - begin
        return (self.share / "ready").read_text().strip()

    def last_words(self):
        words = ""
        for name in ("qemu.log", "console.log"):
            path = self.folder / name
            if path.exists():
                words += path.read_text(errors="replace")[-2000:]
        return words

    def check_alive(self):
        if self.qemu is None or self.qemu.poll() is not None:
            raise GuestDied("the guest is gone: " + self.last_words())

    def stop(self):
        if self.qemu is None:
            return
        self.qemu.terminate()
        try:
            self.qemu.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.qemu.kill()
            self.qemu.wait()
        self.qemu = None

    # --- programs -------------------------------------------------------------------------------------

    def start_script(self, text):
        self.check_alive()
        number = self.next_number
        self.next_number += 1
        (self.share / f"{number}.sh").write_text(text + "\n")
        self.ask_for(number)
        return Request(self, number)

    def ask_for(self, number):
        self.port.sendall(f"{number}\n".encode())

    def run(self, text, seconds=60):
        """Returns the output of a script, which must exit with 0."""
        request = self.start_script(text)
        code = request.wait(seconds)
        if code != 0:
            raise RuntimeError(f"in the guest: {text}: exit code {code}\n{request.output}")
        return request.output

    def start_program(self, command, seconds):
        return self.start_script(f"exec timeout -k 2 {seconds} {command}")

    def start_server(self, command, seconds, tcp_port=None):
        """Like start_program. Request.is_up() says whether it listens on the TCP port or, without a port,
        whether it is idle."""
        number = self.next_number
        listens = "rests" if tcp_port is None else f"grep -qi ':{tcp_port:04X} [0-9A-F]*:0000 0A ' /proc/net/tcp /proc/net/tcp6"
        return self.start_script(f"""
timeout -k 2 {seconds} {command} & server=$!
echo $server >/share/{number}.pid
calm=0 before=
rests() {{ # asleep six times in a row, with no time of the processor used in between
  local child line
  read -r child <"/proc/$server/task/$server/children"
  read -r line <"/proc/$child/stat" || return 0
  set -- ${{line##*) }}
  if [ "$1" = S ] && [ "${{12}} ${{13}}" = "$before" ]; then calm=$((calm + 1)); else calm=0; fi
  before="${{12}} ${{13}}"
  [ $calm -ge 6 ]
}}
until {listens}; do kill -0 $server 2>/dev/null || break; sleep 0.05; done
echo >/share/{number}.up
wait $server""")

    def stop_server(self, request):
        """Ends a server that does not end by itself."""
        self.run(f"kill $(cat /share/{request.number}.pid) || true")
        request.wait(GRACE_SECONDS)
