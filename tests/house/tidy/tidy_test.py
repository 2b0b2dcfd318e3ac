#!/usr/bin/env python3
"""Proves that every rule of rules.toml can fail and does not fail on fine text: each case writes a small tree into a
temporary folder and compares the findings of tidy.py."""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import tidy

RULES = tidy.load_rules(Path(__file__).with_name("rules.toml"))
# The snippets below break one rule each; only the test of the format rule checks the layout.
WITHOUT_FORMAT = {**RULES, "format": {"in": []}}
HEAD = "// Owns one thing.\n"


def bare(example):
    """Examples of text rules carry {x} for a letter, so that rules.toml does not match itself."""
    return example.replace("{", "").replace("}", "")


class Tree(unittest.TestCase):
    def findings(self, files, rules=WITHOUT_FORMAT):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            found, count = tidy.check_tree(root, rules)
            self.assertEqual(count, len(files))
            return [finding.rule for finding in found]

    def test_a_clean_tree_passes(self):
        self.assertEqual(self.findings({
            "src/base/a.h": HEAD + "#pragma once\n#include <atomic>\n",
            "src/wire/b.h": HEAD + '#pragma once\n#include "base/a.h"\n#include "wire/c.h"\n',
            "src/wire/b.cc": '#include "wire/b.h"\n',
            "README.md": "text\n",
        }), [])

    def test_every_pair_of_layers(self):
        for folder, allowed in RULES["layers"].items():
            for other in RULES["layers"]:
                found = self.findings({f"src/{folder}/a.h": HEAD + f'#include "{other}/x.h"\n'})
                self.assertEqual(found, [] if other in [folder, *allowed] else ["layers"], (folder, other))

    def test_the_layers_are_an_order(self):
        for folder, allowed in RULES["layers"].items():
            for other in allowed:
                if other not in RULES["layers"]:  # outside src/, and stands on nothing that is there
                    self.assertLessEqual({other}, {"rrdma", *RULES["public_only"]}, folder)
                    continue
                self.assertNotIn(folder, RULES["layers"][other])
                self.assertLessEqual(set(RULES["layers"][other]), set(allowed), (folder, other))

    def test_includes_that_evade_the_layers(self):
        for line in ["#include <nic/nic.h>", '#include "a.h"', '#include "../nic/nic.h"', '#  include "nic/nic.h"',
                     '#include "tests/x.h"']:
            self.assertEqual(self.findings({"src/wire/a.h": HEAD + line + "\n"}), ["layers"], line)
        self.assertEqual(self.findings({"src/wire/a.h": HEAD + '// #include "nic/nic.h"\n'}), [])
        self.assertEqual(self.findings({"src/newcomer/a.h": HEAD}), ["layers"])

    def test_public_headers_only(self):
        for folder, allowed in RULES["public_only"].items():
            self.assertEqual(self.findings({f"{folder}/a.h": HEAD + '#include "wire/x.h"\n'}), ["layers"])
            self.assertEqual(self.findings({f"{folder}/a.h": HEAD + f'#include "{allowed[0]}/x.h"\n'}), [])

    def test_words(self):
        for rule in RULES["words"]:
            for folder in rule["in"]:
                folder = {"src": "src/wire"}.get(folder, folder)
                name = f"{folder}/a.h"
                self.assertIn(f"words.{rule['name']}", self.findings({name: HEAD + rule["example"] + "\n"}), name)
                for fine in rule["fine"]:
                    self.assertEqual(self.findings({name: HEAD + fine + "\n"}), [], fine)
            for folder in rule.get("not_in", []):
                self.assertEqual(self.findings({f"{folder}/a.h": HEAD + rule["example"] + "\n"}), [])

    def test_words_in_comments_and_literals_are_fine(self):
        text = HEAD + '// throw\n/* try\n throw */\nconst char* s = "throw \\" throw"; char c = \'"\'; // throw\n'
        self.assertEqual(self.findings({"src/wire/a.h": text}), [])
        self.assertEqual(self.findings({"src/wire/a.h": text + "int n = 1'000; throw 1;\n"}), ["words.exceptions"])
        self.assertEqual(self.findings({"src/wire/a.h": HEAD + 'auto s = R"x(throw " )x"; throw 1;\n'}), ["words.exceptions"])

    def test_words_in_tests(self):
        self.assertEqual(self.findings({"src/wire/a_test.cc": HEAD + "throw 1;\n"}), [])
        self.assertEqual(self.findings({"src/wire/a_test.cc": HEAD + "std::expected<int, int> x;\n"}), ["words.toolchain"])

    def test_names(self):
        for example in RULES["names"]["examples"]:
            self.assertEqual(self.findings({"src/wire/a.h": HEAD + example + "\n"}), ["names"], example)
        for fine in RULES["names"]["fine"]:
            self.assertEqual(self.findings({"src/wire/a.h": HEAD + fine + "\n"}), [], fine)
        for word in RULES["names"]["words"]:
            self.assertEqual(self.findings({f"src/wire/packet_{word}.h": HEAD}), ["names"], word)
            self.assertEqual(self.findings({"src/wire/a.h": HEAD + f"class Packet{word.title()};\n"}), ["names"], word)
        for verb in RULES["names"]["functions"]:
            self.assertEqual(self.findings({"src/wire/a.h": HEAD + f"int {verb}_it(int);\n"}), ["names"], verb)

    def test_size(self):
        limit = RULES["size"]["max_lines"]
        self.assertEqual(self.findings({"src/wire/a.h": HEAD + "\n" * (limit - 1)}), [])
        self.assertEqual(self.findings({"src/wire/a.h": HEAD + "\n" * limit}), ["size"])
        self.assertEqual(self.findings({"src/wire/a.h": HEAD, "src/wire/a_test.cc": "\n" * (limit + 1)}), [])

    def test_columns(self):
        limit = RULES["columns"]["max"]
        self.assertEqual(self.findings({"src/wire/a.h": HEAD + "// " + "x" * (limit - 3) + "\n"}), [])
        self.assertEqual(self.findings({"src/wire/a.h": HEAD + "// " + "x" * (limit - 2) + "\n"}), ["columns"])

    def test_head(self):
        limit = RULES["head"]["max_lines"]
        self.assertEqual(self.findings({"src/wire/a.h": "#pragma once\n"}), ["head"])
        self.assertEqual(self.findings({"src/wire/a.cc": "int x;\n"}), ["head"])
        self.assertEqual(self.findings({"src/wire/a.h": "// x\n" * (limit + 1)}), ["head"])
        self.assertEqual(self.findings({"src/wire/a.h": "// x\n" * limit, "src/wire/a.cc": "int x;\n"}), [])

    def test_text(self):
        for rule in RULES["text"]:
            for name in ["README.md", "Makefile", "src/wire/a.h", "scripts/x.sh"]:
                found = self.findings({name: HEAD + "// " + bare(rule["example"]) + "\n"})
                self.assertIn(f"text.{rule['name']}", found, (name, rule["name"]))
            for fine in rule["fine"]:
                self.assertEqual(self.findings({"README.md": fine + "\n"}), [], fine)

    def prose_findings(self, name, text):
        """The findings in a file of a clean folder."""
        rules = {**WITHOUT_FORMAT, "prose": {**RULES["prose"], "in": ["docs", "src", "scripts"]}}
        return self.findings({name: text}, rules)

    def test_prose_of_documents(self):
        for rule in RULES["prose"]["rules"]:
            for example in rule["examples"]:
                self.assertEqual(self.prose_findings("docs/a.md", bare(example) + "\n"), [f"prose.{rule['name']}"], example)
            for fine in rule["fine"]:
                self.assertEqual(self.prose_findings("docs/a.md", "Text.\n\n" + fine + "\n"), [], fine)
            nowhere = {**RULES["prose"], "in": [], "rules": [{**rule, "also_in": []}]}
            self.assertEqual(self.findings({"docs/a.md": bare(rule["examples"][0])}, {**WITHOUT_FORMAT, "prose": nowhere}), [])
            everywhere = {**RULES["prose"], "in": [], "rules": [{**rule, "also_in": ["."]}]}
            self.assertEqual(self.findings({"docs/a.md": bare(rule["examples"][0])}, {**WITHOUT_FORMAT, "prose": everywhere}), [f"prose.{rule['name']}"])
            only_here = {**RULES["prose"], "in": [], "rules": [{**rule, "also_in": ["docs/a.md"]}]}
            self.assertEqual(self.findings({"docs/a.md": bare(rule["examples"][0])}, {**WITHOUT_FORMAT, "prose": only_here}), [f"prose.{rule['name']}"])
            allowed = {**RULES["prose"], "in": ["docs"], "rules": [{**rule, "allow": {"docs/a.md": "a reason"}}]}
            self.assertEqual(self.findings({"docs/a.md": bare(rule["examples"][0])}, {**WITHOUT_FORMAT, "prose": allowed}), [])

    def test_prose_of_manual_pages_and_comments(self):
        for text in ["It ends.\n.PP\nWho polls pays.\n", ".B Who\npolls pays.\n", "A \\fBoctet\\fR.\n"]:
            self.assertEqual(len(self.prose_findings("docs/man/a.1", text)), 1, text)
        self.assertEqual(self.prose_findings("docs/man/a.1", ".nf\nWho polls\n.fi\nA byte.\n.SH What\n"), [])
        for text in ["// It ends. Who polls\n// pays.\n", "// One.\nint x;  // Who polls.\n", "/* One.\n * Who polls. */\n", "// One.\n//\n// Nobody\n", "// An octet.\n"]:
            self.assertEqual(len(self.prose_findings("src/wire/a.h", text)), 1, text)
        self.assertEqual(self.prose_findings("src/wire/a.h", HEAD + 'auto s = "Who polls"; int octets; // A poller.\n'), [])
        for name, text in [("scripts/a.py", '"""One. Who polls."""\n'), ("scripts/a.py", "x = 1  # Who polls\n"), ("scripts/CMakeLists.txt", "# Who polls\n"),
                           ("scripts/a.sh", "#!/bin/sh\n# One.\n# Where it is\n"), ("scripts/a.ts", "// Nobody polls.\n")]:
            self.assertEqual(self.prose_findings(name, text), ["prose.subject"], text)
        for name, text in [("scripts/a.py", 'x = "Who polls"\ny = ("""Who""")\n'), ("scripts/a.sh", 'echo "# Who polls"\n'), ("scripts/a.ts", "x = `// Who`;\n")]:
            self.assertEqual(self.prose_findings(name, text), [], text)

    def test_lines_of_prose(self):
        rules = {**WITHOUT_FORMAT, "prose": {**RULES["prose"], "in": ["docs"]}}
        text = "# Head\n\nOne is here,\nthen it ends. Who\npolls. An\noctet.\n"
        self.assertEqual([(found.line, found.rule) for found in tidy.check_prose("docs/a.md", text, rules)], [(6, "prose.octets"), (4, "prose.subject")])

    def test_folders(self):
        rule = RULES["folders"]
        many = {f"src/host/a{i}.h": HEAD for i in range(rule["files_max"])}
        self.assertEqual(self.findings(many), [])
        self.assertEqual(self.findings({**many, "src/host/b_test.cc": HEAD}), ["folders"])
        large = {f"src/host/a{i}.h": HEAD + "\n" * 499 for i in range(rule["lines_max"] // 500)}
        self.assertEqual(self.findings(large), [])
        self.assertEqual(self.findings({**large, "src/host/b.h": HEAD}), ["folders"])
        self.assertEqual(self.findings({**large, "src/host/b_test.cc": HEAD}), [])
        for folder in rule["except"]:
            self.assertEqual(self.findings({name.replace("src/host", folder): text for name, text in large.items()} | {f"{folder}/b.h": HEAD}), [])

    def test_functions(self):
        lines = RULES["shapes"]["function_lines_max"]
        for head in ["void f() {", "int A::f(int x) const noexcept {", "A::A(int x) : B(x), c_{x} {", "auto f() -> int {",
                     "template <typename T, class U = X<T>> U f(T) {", "class A {\n public:\n  int f() override {",
                     "namespace a {\nnamespace {\nstruct B f(struct C* c) {", "bool operator==(A, A) {"]:
            closing = "\n".join("}" for _ in range(head.count("{") - head.count("c_{")))
            short, long = ("\n".join([HEAD + head, *["  x;"] * body, closing, ""]) for body in (lines - 2, lines - 1))
            self.assertEqual(self.findings({"src/wire/a.h": short}), [], head)
            self.assertEqual(self.findings({"src/wire/a.h": long}), ["shapes"], head)
            self.assertEqual(self.findings({"src/wire/a.h": HEAD, "src/wire/a_test.cc": long}), [], head)
            self.assertEqual(self.findings({"lib/a/a.h": long}), ["shapes"], head)

    def test_long_things_that_are_no_functions(self):
        body = "\n".join(["  1,"] * 100)
        for head in ["constexpr int kTable[] = {", "enum class A : int {", "const Table kTable{", "class A {", "namespace a {",
                     "inline constexpr auto kTable = std::to_array<int>({"]:
            tail = "});" if head.endswith("({") else "};"
            self.assertEqual(self.findings({"src/wire/a.h": f"{HEAD}{head}\n{body}\n{tail}\n"}), [], head)

    def test_bases(self):
        for bases, expected in (["A, B, C"], []), (["A, B, C, D"], ["shapes"]), (["X<A, B, C>, D"], []), (["x::A, y::B, public C, private D"], ["shapes"]):
            for head in "class T final : public ", "template <class U, class V>\nstruct T : ":
                self.assertEqual(self.findings({"src/wire/a.h": f"{HEAD}{head}{bases[0]} {{\n}};\n"}), expected, bases)

    def test_names_of_tests(self):
        for macro in "TEST", "TEST_F", "TEST_P", "TYPED_TEST":
            self.assertEqual(self.findings({"src/wire/a_test.cc": f"{HEAD}{macro}(Bth, ReadsWhatItWrote) {{}}\n"}), [])
            for name in "reads_what_it_wrote", "Reads_it", "readsIt":
                self.assertEqual(self.findings({"src/wire/a_test.cc": f"{HEAD}{macro}(Bth, {name}) {{}}\n"}), ["test_names"], name)

    def test_what_documents_name(self):
        folders = {f"src/{layer}/a.h": HEAD for layer in RULES["layers"]} | {f"{folder}/a.h": HEAD for folder in RULES["public_only"]}
        table = "".join(f"| `src/{layer}/` | x |\n" for layer in RULES["layers"] if "/" not in layer)
        tree = {**folders, "Makefile": "build: x\n", "ARCHITECTURE.md": table}
        self.assertEqual(self.findings(tree), [])
        self.assertEqual(self.findings({**tree, "ARCHITECTURE.md": table + "`make build`, `src/base/a.h`, `base/a.h`, `verbs.h`, `tests/`, src/nowhere"}), ["named"])
        self.assertEqual(self.findings({**tree, "ARCHITECTURE.md": table + RULES["named"]["layer_line"] + "\n"}), [])
        for wrong in "base < wire < tools", "`base < wire\n  < tools`", "`make nothing`", "    make nothing", "`src/base/b.h`", "`b.cc`", "`nowhere/a.h`", "| `src/gone/` | x |":
            self.assertEqual(self.findings({**tree, "ARCHITECTURE.md": table + wrong + "\n"}), ["named"], wrong)
        self.assertEqual(self.findings({**tree, "ARCHITECTURE.md": table.replace("| `src/base/` | x |\n", "")}), ["named"])
        self.assertEqual(self.findings({name: text for name, text in tree.items() if not name.startswith("src/sim/")} |
                                       {"ARCHITECTURE.md": table.replace("| `src/sim/` | x |\n", "")}), ["named"])

    def test_members(self):
        tree = {"src/base/a.h": "// A.\n#pragma once\nstruct Thing { void turn(); };\n", "src/base/b.h": "// B.\n#pragma once\n"}
        for fine in ("`src/base/a.h`, `Thing::turn`", "`Thing::turn()`", "`src/base/b.h` | `Thing::turn`", "`std::span`"):
            self.assertEqual(self.findings({**tree, "docs/a.md": fine + "\n"}), [], fine)
        for wrong in ("`src/base/b.h`, `Thing::turn`", "`Thing::stop`", "`Other::turn`"):
            self.assertEqual(self.findings({**tree, "docs/a.md": wrong + "\n"}), ["members"], wrong)

    def test_links(self):
        tree = {"docs/a/b.md": "text\n", "docs/c.md": "text\n"}
        for target in "../c.md", "../a", "../a/", "../../docs/c.md#part", "#part", "https://example.org/x", "..":
            self.assertEqual(self.findings({**tree, "docs/a/b.md": f"[x]({target})\n"}), [], target)
        for target in "c.md", "../d.md", "../../c.md#part", "../../../docs/c.md":
            self.assertEqual(self.findings({**tree, "docs/a/b.md": f"[x]({target})\n"}), ["links"], target)

    @unittest.skipUnless(shutil.which("clang-format-14"), "no clang-format-14 here")
    def test_format(self):
        rules = {**RULES, "format": {"in": ["src"]}}
        style = (Path(__file__).resolve().parents[3] / ".clang-format").read_text(encoding="utf-8")
        self.assertEqual(self.findings({"src/wire/a.h": HEAD + "int   x ;\n", ".clang-format": style}, rules), ["format"])
        self.assertEqual(self.findings({"src/wire/a.h": HEAD + "int x;\n", ".clang-format": style}, rules), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
