"""The prose of a file, for the rules of [prose] in rules.toml: paragraphs of Markdown and of manual pages, comments of C++,
TypeScript, Python, CMake and shell files, docstrings. Code blocks, `code` and string literals are left out."""

import io
import re
import tokenize
from pathlib import Path

C_LIKE = {".h", ".cc", ".c", ".hpp", ".cpp", ".ts", ".mjs"}
HASH = {".cmake", ".sh", ".toml", ".yml", ".yaml", ".service", ".txt", ""}
MAN = {".1", ".3", ".5", ".7", ".8"}
KNOWN = C_LIKE | HASH | MAN | {".md", ".py"}

C_TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|(?<![0-9A-Za-z_])(?:u8|[uUL])?\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
HASH_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'[^\']*\'|(?P<comment>(?<!\S)#[^\n]*)')
BULLET = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
# A word that replaces `code`, so that the sentence around it stays one.
CODE_WORD = "CODE"


class Block:
    """A paragraph: its text, line by line, and the number of its first line."""

    def __init__(self, line, text):
        self.line, self.text = line, text


def sentences(block):
    """(line, sentence) of a block; a sentence ends with . ! or ? before a blank, or with the block."""
    start = 0
    for end in [match.end() for match in re.finditer(r'[.!?]["”’)*_]*(?=\s)', block.text)] + [len(block.text)]:
        text = block.text[start:end]
        line = block.line + block.text.count("\n", 0, start + len(text) - len(text.lstrip()))
        text = " ".join(text.split())
        if text:
            yield line, text
        start = end


def blocks_of(path, source):
    """The prose of a file; nothing where its kind is not known."""
    suffix = Path(path).suffix
    if suffix == ".md":
        return markdown(source)
    if suffix in MAN:
        return manual(source)
    if suffix == ".py":
        return python(source)
    if suffix in C_LIKE:
        return joined(comments(source, C_TOKEN), "//")
    if suffix in HASH:
        return joined(comments(source, HASH_TOKEN), "#")
    return []


def markdown(source):
    source = re.sub(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", lambda match: CODE_WORD + "\n" * match.group(0).count("\n"), hidden(source), flags=re.DOTALL)
    source = re.sub(r"\]\([^)\s]*\)", "]", source)
    found, paragraph, retired_table = [], [], False

    def end():
        if paragraph:
            found.append(Block(paragraph[0][0], "\n".join(text for _, text in paragraph)))
            paragraph.clear()

    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith("|"):
            end()
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            retired_table = retired_table or cells[0] == "instead of"
            if not retired_table:
                found += [Block(number, cell) for cell in cells if cell]
            continue
        retired_table = False
        if not line.strip() or line.startswith("#"):
            end()
            continue
        bullet = BULLET.match(line)
        if bullet:
            end()
            line = line[bullet.end():]
        paragraph.append((number, line.lstrip("> ")))
    end()
    return found


def hidden(source):
    """Markdown with its code blocks emptied, fenced ones and those indented by four blanks after an empty line."""
    lines, fenced, indented, before = [], False, False, ""
    for line in source.splitlines():
        fence = line.lstrip().startswith("```")
        indented = line.startswith("    ") and (indented or not before.strip()) or indented and not line.strip()
        lines.append("" if fence or fenced or indented else line)
        fenced ^= fence
        before = line
    return "\n".join(lines)


def manual(source):
    found, paragraph, literal = [], [], False

    def end():
        if paragraph:
            found.append(Block(paragraph[0][0], "\n".join(text for _, text in paragraph)))
            paragraph.clear()

    for number, line in enumerate(source.splitlines(), 1):
        line = re.sub(r"\\f[A-Z]|\\&", "", line).replace("\\-", "-")
        macro = re.match(r"[.'](\w*)\s*(.*)", line)
        if macro and macro.group(1) in ("nf", "EX", "fi", "EE"):
            literal = macro.group(1) in ("nf", "EX")
            end()
        elif literal:
            continue
        elif macro and macro.group(1) in ("B", "I", "BR", "IR", "BI", "IB", "RB", "RI"):
            paragraph.append((number, macro.group(2).replace('"', "")))
        elif macro or not line.strip():
            end()
        else:
            paragraph.append((number, line))
    end()
    return found


def python(source):
    found = []
    statement_begins = True
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return []
    for token in tokens:
        if token.type == tokenize.COMMENT:
            alone = token.line[:token.start[1]].strip() == ""
            found.append((token.start[0], alone, token.string))
        elif token.type == tokenize.STRING and statement_begins and token.string.startswith(('"""', "'''")):
            found.append((token.start[0], False, token.string.strip("\"'")))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            statement_begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    return joined(found, "#")


def comments(source, token):
    """(line, whether nothing stands before it on its line, text) of each comment."""
    found = []
    for match in token.finditer(source):
        if match.group("comment"):
            begin = source.rfind("\n", 0, match.start()) + 1
            found.append((source.count("\n", 0, match.start()) + 1, not source[begin:match.start()].strip(), match.group("comment")))
    return found


def joined(found, mark):
    """Comments that fill consecutive lines are one block; an empty comment line ends a block."""
    blocks, last = [], -1
    for line, alone, text in found:
        bare = [re.sub(r"^\s*(?:/\*+|\*+/|\*(?!\*)|%s+!?)?\s?" % re.escape(mark), "", part).removesuffix("*/") for part in text.split("\n")]
        bare = [re.sub(r"`[^`\n]+`", CODE_WORD, part) for part in bare]
        if alone and len(bare) == 1 and last == line - 1 and bare[0].strip() and blocks[-1].text.strip() and not BULLET.match(bare[0]):
            blocks[-1].text += "\n" + bare[0]
        else:
            blocks.append(Block(line, "\n".join(bare)))
        last = line + text.count("\n") if alone else -1
    return [block for block in blocks if block.text.strip()]
