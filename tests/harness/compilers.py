"""The C++ compilers of this machine that know C++20 coroutines."""

import os
import pathlib
import re
import subprocess

OLDEST = {"g++": 12, "clang++": 14}


def compilers():
    """The path of one compiler for each version, by its name and version. Names may end in a version: g++-12."""
    found = {}
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in sorted(pathlib.Path(folder).glob("*")) if pathlib.Path(folder).is_dir() else []:
            kind = re.fullmatch(r"(g\+\+|clang\+\+)(-\d+)?", program.name)
            if not kind:
                continue
            said = subprocess.run([program, "-dumpfullversion" if kind[1] == "g++" else "-dumpversion"], capture_output=True, text=True).stdout.strip()
            if said and int(said.split(".")[0]) >= OLDEST[kind[1]]:
                found.setdefault((kind[1], said), str(program))
    return {f"{kind} {version}": program for (kind, version), program in found.items()}


def one_of_each_kind():
    """The path of a g++ and of a clang++, of those that exist. At least one must."""
    of_kind = {}
    for name, program in compilers().items():
        of_kind.setdefault(name.split()[0], program)
    assert of_kind, "no C++ compiler was found"
    return list(of_kind.values())
