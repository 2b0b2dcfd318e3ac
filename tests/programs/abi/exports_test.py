"""The dynamic symbols of librrdma.so.1. It exports every public function of the system's libibverbs that
takes an object of ours, under its exact version node, and nothing that is not listed. (tools.older_systems
checks what it imports.)

  exports_test.py LIBRARY EXPORTS_MAP UNVERSIONED_LIST
"""
import ctypes.util
import re
import subprocess
import sys

# These take no object of a device, so the real library serves both.
PASS_THROUGH = {
    "ibv_wc_status_str", "ibv_node_type_str", "ibv_port_state_str", "ibv_event_type_str", "ibv_rate_to_mult", "mult_to_ibv_rate",
    "ibv_rate_to_mbps", "mbps_to_ibv_rate", "ibv_fork_init", "ibv_is_fork_initialized", "ibv_dontfork_range", "ibv_dofork_range",
    "ibv_copy_path_rec_from_kern", "ibv_copy_path_rec_to_kern", "ibv_copy_qp_attr_from_kern", "ibv_copy_ah_attr_from_kern",
    "ibv_get_sysfs_path", "ibv_read_sysfs_file",
}
NEEDED = re.compile(r"libibverbs\.so\.1|libisal\.so\.2|libnl-(route-)?3\.so\.200|liburing\.so\.2|lib[cm]\.so\.6|ld-linux-.*")
failures = []


def check(condition, sentence):
    if not condition:
        failures.append(sentence)


def dynamic_symbols(library):
    """Yields (name, version, whether it is the default version, whether it is defined here)."""
    listing = subprocess.run(["objdump", "-T", library], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        found = re.match(r"[0-9a-f]{16} (?!l).{7} (\S+)\s+[0-9a-f]+\s+(.*)$", line)
        if not found:
            continue
        words = found.group(2).replace(".hidden", "").split()
        name, version = words[-1], words[0] if len(words) > 1 else ""
        yield name, version.strip("()"), not version.startswith("("), found.group(1) != "*UND*"


def system_library():
    listing = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    return re.search(r"libibverbs\.so\.1 .*=> (\S+)", listing).group(1)


def names_in(map_file):
    text = re.sub(r"/\*.*?\*/", "", open(map_file).read(), flags=re.S)
    for node, body in re.findall(r"(IBVERBS_[\d.]+)\s*\{(.*?)\}", text, re.S):
        for name in re.findall(r"\w+(?=;)", body.split("local:")[0]):
            yield name, node


def main():
    library, map_file, unversioned_file = sys.argv[1:]
    ours = list(dynamic_symbols(library))
    exported = {(name, version) for name, version, _, here in ours if here and not name.startswith("IBVERBS_")}
    listed = set(names_in(map_file))
    unversioned = {line.strip() for line in open(unversioned_file) if line.strip() and not line.startswith("#")}

    for name, version in sorted(exported):
        known = (name, version) in listed or (version == "Base" and name in unversioned)
        check(known, f"exported without being listed: {name}@{version}")
    for name, version in sorted(listed - exported):
        check(False, f"listed in {map_file} but not exported: {name}@{version}")
    for name in sorted(unversioned - {name for name, _ in exported}):
        check(False, f"listed in {unversioned_file} but not exported: {name}")

    public = 0
    for name, version, default, here in dynamic_symbols(system_library()):
        if not here or not default or not re.match(r"IBVERBS_1\.\d+$", version) or name.startswith("IBVERBS_"):
            continue
        public += 1
        check((name, version) in exported or name in PASS_THROUGH,
              f"the system's libibverbs has {name}@{version}, and it is neither ours nor one that may pass through")
    check(public >= 70, f"only {public} public functions were found in the system's libibverbs: is it being read right?")

    dynamic = subprocess.run(["objdump", "-p", library], check=True, capture_output=True, text=True).stdout
    check(re.search(r"SONAME\s+librrdma\.so\.1$", dynamic, re.M), "the SONAME is not librrdma.so.1")
    needed = re.findall(r"NEEDED\s+(\S+)", dynamic)
    check("libibverbs.so.1" in needed, "libibverbs.so.1 is not among the needed libraries")
    for name in needed:
        check(NEEDED.fullmatch(name), f"{name} would have to be on every user's machine")

    print("\n".join(failures) if failures else f"{len(exported)} exports, {public} public functions of the system's library: all accounted for")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
