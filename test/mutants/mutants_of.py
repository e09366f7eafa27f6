"""mutants_of.py - every small change of a C source that test/mutants/mutate_random.py draws from.

A change is (start, end, new text, operator). What is found in comments, strings and preprocessor conditions is none; the text need
not compile, the compiler sorts that out. Binary operators are those with a space on both sides, which is how these sources write
them: a pointer's star and an address have none."""
import bisect
import collections
import re

Change = collections.namedtuple("Change", "start end new operator")

OTHER = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
         "+": ["-"], "-": ["+"], "*": ["/", "+"], "/": ["*"], "%": ["/", "*"], "<<": [">>"], ">>": ["<<"],
         "&": ["|"], "|": ["&"], "^": ["|"], "&&": ["||"], "||": ["&&"],
         "+=": ["-=", "="], "-=": ["+="], "*=": ["/=", "="], "/=": ["*="], "%=": ["/="], "|=": ["&=", "="], "&=": ["|=", "="],
         "^=": ["|="], "<<=": [">>="], ">>=": ["<<="]}
KIND = {**{o: "comparison" for o in ("<", "<=", ">", ">=", "==", "!=")}, "&&": "logical", "||": "logical"}
BINARY = re.compile(r"(?<=\s)(" + "|".join(re.escape(o) for o in sorted(OTHER, key=len, reverse=True)) + r")(?=\s)")
NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)([uUlLfF]*)(?![\w.])")
HEADER = re.compile(r"\s*(?:(?:if|for|while|switch)\s*(?=\()|else\b|do\b|case\b[^:?]*:|default\s*:|ATTN__UNROLL\b|ATTN__EACH\b)")
DECLARATION = re.compile(r"(?:(?!return\b|goto\b|else\b)\w+[\s*]+)+\w+\s*(?:[=,\[(]|$)|typedef\b|extern\b|enum\b|struct\b|union\b")
FENCE = re.compile(r"\s*gpu_fence\(\);")
NO_DELETION = re.compile(r"(?:break|continue)$|return\b.|,|gpu_fence\(\)$")     # a jump is changed by branches(); no value to return is no fault but undefined; a compiler's order changes registers alone
COMMUTATIVE = {"attn__max", "attn__min", "attn__disjoint", "fmax", "fmin", "fmaxf", "fminf", "max64", "min64"}
EQUALITY = {"strcmp", "memcmp"}         # behind a "!"
PARAMETER = re.compile(r"(?:const\s+)?(?:struct\s+)?\w+[\s*]+\w+(?:\[\w*\])*$")
KEYWORDS = {"if", "for", "while", "switch", "sizeof", "return", "defined", "__attribute__", "_Pragma", "_Alignof", "alignof"}


def blanked(source):
    """The same length, comments and strings blanked: what is found in it is code."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", blank, source, flags=re.S)


def without_directives(code, bodies):
    """Preprocessor lines blanked as well; with `bodies` the replacement texts of #define remain."""
    def blank(m):
        text = m.group(0)
        head = re.match(r"[ \t]*#[ \t]*define[ \t]+\w+(?:\([^)]*\))?", text) if bodies else None
        kept = text[head.end():] if head else ""
        return re.sub(r"[^\n]", " ", text[:len(text) - len(kept)]) + kept
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, code, flags=re.M)


def closing(code, at):
    """The place behind the parenthesis that the one at `at` opens, or None."""
    depth = 0
    for i in range(at, min(len(code), at + 4000)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i + 1
    return None


def numbers(code):
    for m in NUMBER.finditer(code):
        text, suffix = m.groups()
        where = lambda new: Change(m.start(), m.end(), new, "constant")
        if text[:2] in ("0x", "0X"):
            value = int(text, 16)
            new = [hex(v) for v in (value + 1, value - 1, value * 2, value // 2) if 0 <= v < 1 << 64 and v != value]
        elif re.search(r"[.eE]", text) or suffix in ("f", "F"):
            new = [repr(v) for v in (float(text) * 2, float(text) / 2) if v != float(text)] or ["1.0"]
        else:
            value = int(text, 8 if text[0] == "0" and text.isdigit() and len(text) > 1 else 10)
            dimension = code[m.start() - 1] == "[" and re.match(r"\](?:\[\w+\])*\s*[;,=]", code[m.end():m.end() + 20])
            grown = [] if dimension else [value + 1, value * 2]           # room to spare is no fault
            new = [str(v) for v in dict.fromkeys([*grown, value - 1, value // 2]) if 0 <= v != value]
        yield from (where(n + suffix) for n in new)


def operators(code):
    for m in BINARY.finditer(code):
        for new in OTHER[m.group(1)]:
            yield Change(m.start(1), m.end(1), new, KIND.get(m.group(1), "arithmetic"))
    for m in re.finditer(r"\+\+|--", code):
        yield Change(m.start(), m.end(), "--" if m.group(0) == "++" else "++", "arithmetic")
    for m in re.finditer(r"!(?=[A-Za-z_(*])", code):
        yield Change(m.start(), m.end(), "", "logical")
    for m in re.finditer(r"(?<=\s)\?(?=\s)", code):
        yield Change(m.start(), m.end(), "&& 0 ?", "condition")
        yield Change(m.start(), m.end(), "|| 1 ?", "condition")


def branches(code):
    for m in re.finditer(r"\b(if|while)\s*(\()", code):
        end = closing(code, m.start(2))
        if end and not FENCE.match(code, end):
            for new in ("0", "1") if m.group(1) == "if" else ("0",):
                yield Change(m.start(2), end, f"({new})", "condition")
    for m in re.finditer(r"\belse(?=\s*\{)", code):
        yield Change(m.start(), m.end(), "else if (0)", "condition")
    for m in re.finditer(r"\b(break|continue)\s*;", code):
        yield Change(m.start(1), m.end(1), "continue" if m.group(1) == "break" else "break", "jump")
        yield Change(m.start(1), m.end(1), "", "jump")


def statements(code):
    """Each statement that ends with a semicolon outside parentheses, without what heads it."""
    depth, begin = 0, 0
    for m in re.finditer(r"[(){};\[\]]", code):
        c = m.group(0)
        depth = max(0, depth + (c in "([") - (c in ")]"))
        if c in "{}":
            depth, begin = 0, m.end()
        elif c == ";" and depth == 0:
            at = begin
            while True:
                head = HEADER.match(code, at, m.start())
                if not head:
                    break
                at = head.end()
                if code[at:at + 1] == "(":
                    at = closing(code, at) or m.start()
            text = code[at:m.start()]
            begin = m.end()
            if not text.strip() or NO_DELETION.match(text.strip()) or DECLARATION.match(text.strip()):
                continue
            yield Change(at + len(text) - len(text.lstrip()), m.start(), "", "deletion")


def arguments(code):
    """Neighbouring arguments of a call, swapped."""
    for m in re.finditer(r"\b([A-Za-z_]\w*)\s*(\()|(?<=\))(\()", code):
        at, name = m.start(2) if m.group(2) else m.start(3), m.group(1)
        end = closing(code, at)
        if not end or name in KEYWORDS | COMMUTATIVE or end - at > 600 or name in EQUALITY and code[m.start() - 1] == "!":
            continue
        cuts, depth = [at + 1], 0
        for i in range(at + 1, end - 1):
            depth += (code[i] in "([{") - (code[i] in ")]}")
            if depth == 0 and code[i] == ",":
                cuts.append(i + 1)
        ends = [c - 1 for c in cuts[1:]] + [end - 1]
        for a, b, c, d in zip(cuts, ends, cuts[1:], ends[1:]):
            first, second = code[a:b].strip(), code[c:d].strip()
            if first != second and first and second and not PARAMETER.match(first):
                yield Change(a, d, f"{second}, {first}", "arguments")


def changes(source, regions):
    """All changes within the regions [start, end), by the line in which they begin: {line: [Change]}."""
    plain = blanked(source)
    code, bodies = without_directives(plain, False), without_directives(plain, True)
    found = [*numbers(bodies), *operators(bodies), *branches(code), *statements(code), *arguments(code)]
    starts = [0] + [m.end() for m in re.finditer("\n", source)]
    lines = collections.defaultdict(list)
    for change in sorted(set(found)):
        if any(a <= change.start < b for a, b in regions):
            lines[bisect.bisect_right(starts, change.start)].append(change)
    return lines


def draw(lines, random):
    """One change: any line as likely as any other, then any operator, then any of its places."""
    line = random.choice(sorted(lines))
    operator = random.choice(sorted({c.operator for c in lines[line]}))
    return line, random.choice([c for c in lines[line] if c.operator == operator])
