#!/usr/bin/env python3
"""Checks the style rules (rules.toml) on the files of the tree: layers of #include, forbidden words, meaningless names,
file size, head comments, forbidden text, retired prose, the shape of folders, classes and functions, names of tests,
paths, make targets and links in documents, and the layout by clang-format 14 if it is installed. Prints
FILE:LINE: [rule] finding, reason; exits 1 if there is a finding. Standard library only."""

import argparse
import functools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import prose
import shapes

CODE = {".h", ".cc", ".c", ".hpp", ".cpp"}
SOURCES = (".cc", ".h", ".py", ".ts", ".lua", ".cmake")  # documents name them by the end of their path
TEXT = CODE | {".md", ".txt", ".cmake", ".py", ".sh", ".json", ".toml", ".yml", ".yaml", ".map", ".service", ""}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])(?:u8|[uUL])?\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


class Finding:
    def __init__(self, path, line, rule, text):
        self.path, self.line, self.rule, self.text = path, line, rule, text

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.rule}] {self.text}"


def without_comments_and_literals(source, keep_includes=True):
    """The code with comments and literals blanked; line numbers stay, #include lines stay whole."""

    def blank(match):
        text = match.group(0)
        line_start = source.rfind("\n", 0, match.start()) + 1
        if keep_includes and text[0] == '"' and INCLUDE.match(source[line_start:match.end()]):
            return text
        return " " + "\n" * text.count("\n")

    return TOKEN.sub(blank, source)


@functools.cache
def words_of(identifier):
    """The lower-case words of a snake_case or PascalCase name."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", identifier)
    spaced = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", spaced)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def within(path, folders):
    return any(folder in (".", path) or path.startswith(folder + "/") for folder in folders)


def is_test(path):
    return path.startswith("tests/") or re.search(r"_test\.(cc|h|c)$", path) is not None


def is_code(path):
    return Path(path).suffix in CODE


# --- one function for each rule: (path, source text, rules) -> findings -------------------------------


def layer_of(path, layers):
    """The innermost folder of src/ that has an entry among the layers: "control/client" before "control"."""
    folders = path.split("/")[:-1]
    for depth in range(len(folders), 0, -1):
        if "/".join(folders[:depth]) in layers:
            return "/".join(folders[:depth])
    return folders[0] if folders else ""


def check_layers(path, source, rules):
    layers = rules["layers"]
    public_only = rules["public_only"]
    if path.startswith("src/") and path.count("/") >= 2:
        folder = layer_of(path[len("src/"):], layers)
        if folder not in layers:
            yield Finding(path, 1, "layers", f"src/{folder} has no entry in the layers of rules.toml")
            return
        allowed = [folder, *layers[folder]]
    elif layer_of(path, public_only) in public_only:
        folder = layer_of(path, public_only)
        allowed = public_only[folder]
    else:
        return
    internal = {name.split("/")[0] for name in layers}
    for number, line in enumerate(source.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, target = match.groups()
        first = target.split("/")[0]
        if quote == '"' and "/" not in target:
            yield Finding(path, number, "layers", f'"{target}": write includes relative to src/')
        elif (quote == '"' or first in internal and "/" in target) and layer_of(target, layers | public_only) not in allowed:
            yield Finding(path, number, "layers", f"{folder} may not include {target} (it may: {', '.join(allowed)})")


def check_words(path, code, rules):
    for rule in rules["words"]:
        if not within(path, rule["in"]) or within(path, rule.get("not_in", [])):
            continue
        if path in rule.get("allow", {}) or is_test(path) and not rule.get("tests", False):
            continue
        pattern = re.compile(rule["pattern"])
        for number, line in enumerate(code.splitlines(), 1):
            match = pattern.search(line)
            if match:
                yield Finding(path, number, f"words.{rule['name']}", f"`{match.group(0).strip()}`: {rule['why']}")


def check_names(path, code, rules):
    names = rules["names"]
    if not within(path, names["in"]):
        return
    for part in path.split("/"):
        for word in words_of(part.rsplit(".", 1)[0]):
            if word in names["words"] and part.rsplit(".", 1)[0] not in names["foreign"]:
                yield Finding(path, 1, "names", f"file or folder name: `{word}` says nothing")
    if not is_code(path):
        return
    foreign = set(names["foreign"])
    verb = re.compile(r"^(" + "|".join(names["functions"]) + r")_")
    for number, line in enumerate(code.splitlines(), 1):
        if INCLUDE.match(line):
            continue
        for match in IDENTIFIER.finditer(line):
            name = match.group(0)
            if name in foreign or name.isupper():
                continue
            called = line[match.end():].lstrip().startswith(("(", "<"))
            if called and verb.match(name):
                yield Finding(path, number, "names", f"`{name}`: a function says what it does, without {verb.match(name).group(0)}")
            for word in words_of(name):
                if word in names["words"]:
                    yield Finding(path, number, "names", f"`{name}`: `{word}` says nothing")


def check_size(path, source, rules):
    size = rules["size"]
    if not within(path, size["in"]) or is_test(path) or not is_code(path) or path in size.get("allow", {}):
        return
    lines = len(source.splitlines())
    if lines > size["max_lines"]:
        yield Finding(path, lines, "size", f"{lines} lines, at most {size['max_lines']}: one subject, one file")


def check_head(path, source, rules, known_files):
    head = rules["head"]
    if not within(path, head["in"]) or not is_code(path):
        return
    stem = re.sub(r"(_test)?\.\w+$", "", path)
    if not path.endswith(".h") and stem + ".h" in known_files:
        return
    lines = source.splitlines()
    count = 0
    for line in lines:
        if line.startswith("//") or line.startswith("/*") or count and line.startswith(" *"):
            count += 1
        else:
            break
    if not head["min_lines"] <= count <= head["max_lines"]:
        yield Finding(path, 1, "head", f"opens with {count} lines of comment; {head['min_lines']} to "
                                       f"{head['max_lines']} say what the file owns")


def check_text(path, source, rules):
    for rule in rules["text"]:
        if path in rule.get("allow", {}):
            continue
        pattern = re.compile(rule["pattern"])
        for number, line in enumerate(source.splitlines(), 1):
            match = pattern.search(line)
            if match:
                yield Finding(path, number, f"text.{rule['name']}", f"`{match.group(0).strip()}`: {rule['why']}")


def check_prose(path, source, rules):
    """Retired words and sentences; rules.toml describes `look_at`. A question may begin with any word."""
    for rule in rules["prose"]["rules"]:
        if not within(path, rules["prose"]["in"] + rule.get("also_in", [])) or path in rule.get("allow", {}):
            continue
        pattern = re.compile(rule["pattern"])
        if rule["look_at"] == "text":
            lines = enumerate(source.splitlines(), 1)
        elif rule["look_at"] == "prose":
            lines = [(block.line + number, line) for block in prose.blocks_of(path, source) for number, line in enumerate(block.text.split("\n"))]
        else:
            lines = [(line, text) for block in prose.blocks_of(path, source) for line, text in prose.sentences(block)
                     if not text.rstrip("\"”’)*_").endswith("?")]
        for number, line in lines:
            match = pattern.match(line) if rule["look_at"] == "sentences" else pattern.search(line)
            if match:
                yield Finding(path, number, f"prose.{rule['name']}", f"`{match.group(0).strip()}`: {rule['why']}")


def check_columns(path, source, rules):
    """clang-format wraps code, but leaves comments as they are."""
    rule = rules["columns"]
    if within(path, rule["in"]):
        for number, line in enumerate(source.splitlines(), 1):
            if len(line) > rule["max"] and "//" in line:
                yield Finding(path, number, "columns", f"{len(line)} columns, at most {rule['max']}")


def check_shapes(path, code, rules):
    """Classes with few bases, functions that fit a screen; production code only."""
    rule = rules["shapes"]
    if not within(path, rule["in"]) or is_test(path):
        return
    for shape in shapes.shapes(code):
        name = f"{path} {shape.name}"
        if shape.kind == "function" and shape.lines > rule["function_lines_max"] and name not in rule["functions"]:
            yield Finding(path, shape.line, "shapes", f"{shape.name} has {shape.lines} lines, at most {rule['function_lines_max']}")
        if shape.bases > rule["bases_max"] and name not in rule["classes"]:
            yield Finding(path, shape.line, "shapes", f"{shape.name} has {shape.bases} bases, at most {rule['bases_max']}")


def check_test_names(path, code, rules):
    rule = rules["test_names"]
    if not within(path, rule["in"]) or within(path, rule["not_in"]):
        return
    for match in re.finditer(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", code, re.MULTILINE):
        for name in match.groups():
            if not re.fullmatch(rule["pattern"], name):
                yield Finding(path, code.count("\n", 0, match.start()) + 1, "test_names", f"`{name}`: tests are named in PascalCase")


def check_folders(root, paths, rules):
    """No folder of src/ grows beyond its limits."""
    rule = rules["folders"]
    counted = {}
    for path in paths:
        folder = path.rsplit("/", 1)[0]
        if within(path, rule["in"]) and is_code(path) and folder not in rule["except"]:
            files, lines = counted.get(folder, (0, 0))
            own = 0 if is_test(path) else len((Path(root) / path).read_text(encoding="utf-8").splitlines())
            counted[folder] = (files + 1, lines + own)
    for folder, (files, lines) in counted.items():
        if files > rule["files_max"]:
            yield Finding(folder, 1, "folders", f"{files} files, at most {rule['files_max']}")
        if lines > rule["lines_max"]:
            yield Finding(folder, 1, "folders", f"{lines} lines of production code, at most {rule['lines_max']}")


def check_named(root, paths, rules):
    """The things that documents and rules name exist: folders of the table, targets of make, paths, layers."""
    rule = rules["named"]
    folders = {"/".join(path.split("/")[:depth]) for path in paths for depth in range(1, path.count("/") + 1)}
    makefile = Path(root) / "Makefile"
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile.read_text(encoding="utf-8"), re.MULTILINE)) if makefile.is_file() else None
    for name in rules["layers"]:
        if f"src/{name}" not in folders and rule["table_in"] in paths:
            yield Finding("tests/house/tidy/rules.toml", 1, "named", f"layer {name}: there is no such folder")
    for document in [path for path in paths if path.endswith(".md") and within(path, rule["documents"])]:
        text = (Path(root) / document).read_text(encoding="utf-8")
        for match in re.finditer(r"\bbase\s+<[^`]*?\btools\b(?:\s+<\s+\{[^}]*\})?", text):
            if " ".join(match.group(0).split()) != rule["layer_line"]:
                yield Finding(document, text.count("\n", 0, match.start()) + 1, "named", f"the layers are {rule['layer_line']}")
        for number, line in enumerate(text.splitlines(), 1):
            for target in re.findall(r"(?:`|^\s{4})make ([a-z][a-z-]*)", line):
                if targets is not None and target not in targets:
                    yield Finding(document, number, "named", f"make {target}: the Makefile has no such target")
            for path in re.findall(r"`((?:src|tests|docs|scripts|cmake|bench|lib|include|packaging|fuzz|examples)/[\w./-]*)`", line):
                if not path.endswith(SOURCES) and path.rstrip("/") not in folders and path not in paths:
                    yield Finding(document, number, "named", f"{path} does not exist")
            for path in re.findall(r"`([\w./-]+)`", line):
                if path.endswith(SOURCES) and path not in rule["foreign"] and not any(known == path or known.endswith("/" + path) for known in paths):
                    yield Finding(document, number, "named", f"{path} is no file of the tree")
    if rule["table_in"] in paths:
        text = (Path(root) / rule["table_in"]).read_text(encoding="utf-8")
        named = {row.rstrip("/") for row in re.findall(r"^\| `(src/[\w/]+)`", text, re.MULTILINE)}
        for folder in sorted(folder for folder in folders if folder.startswith("src/") and folder.count("/") == 1):
            if folder not in named:
                yield Finding(rule["table_in"], 1, "named", f"{folder} has no row in the table of folders")


def check_members(root, paths, rules):
    """A `Class::function` that a document names exists: in the file that the same sentence or cell names, if it does."""
    rule = rules["members"]
    code = {path: (Path(root) / path).read_text(encoding="utf-8") for path in paths if is_code(path)}

    def has(path, owner, function):
        both = [path, path[:-2] + "cc" if path.endswith(".h") else path[:-2] + "h"]
        text = "".join(code.get(each, "") for each in both)
        return re.search(rf"\b{owner}\b", text) and re.search(rf"\b{function}\s*[(;={{]", text)

    for document in [path for path in paths if path.endswith(".md") and within(path, rule["documents"]) and not within(path, rule["except"])]:
        for number, line in enumerate((Path(root) / document).read_text(encoding="utf-8").splitlines(), 1):
            for cell in re.split(r"[|;]", line):
                path = None
                for token in re.findall(r"`([^`]+)`", cell):
                    if token in code:
                        path = token
                    match = re.fullmatch(r"([A-Z]\w*)::([a-z]\w*)(?:\(.*\))?", token)
                    if match is None:
                        continue
                    if path is not None and not has(path, *match.groups()):
                        yield Finding(document, number, "members", f"{path} has no {token}")
                    elif path is None and not any(has(each, *match.groups()) for each in code):
                        yield Finding(document, number, "members", f"{token} does not exist")


def check_links(root, paths, rules):
    """Relative links of Markdown files lead to a file or folder of the tree."""
    files = set(paths)
    folders = {"/".join(path.split("/")[:depth]) for path in paths for depth in range(1, path.count("/") + 1)} | {"."}
    for document in [path for path in paths if path.endswith(".md")]:
        text = (Path(root) / document).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            for target in re.findall(r"\]\(([^()\s:#]+)(?:#[^()\s]*)?\)", line):
                path = os.path.normpath(os.path.join(os.path.dirname(document), target))
                if path not in files and path not in folders:
                    yield Finding(document, number, "links", f"{target} does not exist")


def check_format(root, paths, rules):
    formatter = shutil.which("clang-format-14")
    paths = [path for path in paths if is_code(path) and within(path, rules["format"]["in"])]
    if formatter is None or not paths:
        return
    run = subprocess.run([formatter, "--dry-run", *paths], cwd=root, capture_output=True, text=True, check=False)
    seen = set()
    for match in re.finditer(r"^(\S+?):(\d+):\d+: (?:warning|error): ", run.stderr, re.MULTILINE):
        path, line = match.groups()
        if path not in seen:
            seen.add(path)
            yield Finding(path, int(line), "format", "differs from clang-format 14: make format")


# --- the tree --------------------------------------------------------------------------------------------


def files_of(root):
    """Tracked and new files, as git sees them; all files without git."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                                capture_output=True, check=True).stdout.decode()
        paths = [path for path in listed.split("\0") if path]
    except (OSError, subprocess.CalledProcessError):
        paths = []
        for directory, folders, names in os.walk(root):
            folders[:] = [f for f in folders if not f.startswith((".git", "build"))]
            paths += [os.path.relpath(os.path.join(directory, name), root) for name in names]
    return sorted(set(path for path in paths if (Path(root) / path).is_file()))


def check_tree(root, rules):
    paths = files_of(root)
    known = set(paths)
    findings = []
    for path in paths:
        findings += check_names(path, "", rules) if not is_code(path) else []
        if Path(path).suffix not in TEXT | prose.KNOWN:
            continue
        try:
            source = (Path(root) / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        findings += check_prose(path, source, rules)
        if Path(path).suffix not in TEXT:
            continue
        findings += check_text(path, source, rules)
        if not is_code(path):
            continue
        code = without_comments_and_literals(source)
        findings += check_layers(path, code, rules)
        findings += check_words(path, code, rules)
        findings += check_names(path, code, rules)
        findings += check_size(path, source, rules)
        findings += check_columns(path, source, rules)
        findings += check_shapes(path, code, rules)
        findings += check_test_names(path, code, rules)
        findings += check_head(path, source, rules, known)
    findings += check_folders(root, paths, rules)
    findings += check_named(root, known, rules)
    findings += check_members(root, paths, rules)
    findings += check_links(root, paths, rules)
    findings += check_format(root, paths, rules)
    return findings, len(paths)


def load_rules(path):
    with open(path, "rb") as file:
        return tomllib.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True, help="top of the tree")
    parser.add_argument("--rules", default=Path(__file__).with_name("rules.toml"))
    arguments = parser.parse_args()
    findings, files = check_tree(arguments.root, load_rules(arguments.rules))
    for finding in findings:
        print(finding)
    print(f"tidy: {files} files, {len(findings)} findings")
    return 1 if findings or not files else 0


if __name__ == "__main__":
    sys.exit(main())
