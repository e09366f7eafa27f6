"""splice.py - of a changed source only the functions that changed are compiled, and linked before those of the source.

clang writes the whole source as LLVM's text, which takes a second; optimizing it takes fifteen. A Module is that text, cut into functions and variables.
changed() compares two of them by what the text means: not by the numbers of attributes, strings and metadata. part() is a module of
some functions alone, the others declared. Every function is weak, so that the compiler uses nothing that it knows of another one's inside, and
the linker takes the first: what a mutant changed stands before the source. What is always inlined is in every part that uses it. Where
that or a variable changed, what uses it has changed."""
import re

FUNCTION = re.compile(r"^define [^\n]*\n.*?^}\n", re.M | re.S)
NAME = re.compile(r"@([\w.$]+|\"[^\"]+\")")
LINKAGE = r"(?:(?:internal|private|weak|weak_odr|dso_local|hidden|protected|unnamed_addr|local_unnamed_addr|linkonce_odr) )*"
TYPE = re.compile(r"%([\w.]+|\"[^\"]+\")")
NUMBERED_OR_STRING = re.compile(r"#\d+\b|!\d+\b|@[\w.]+")
NUMBERED = re.compile(r"(?<![\w!])(#\d+|!\d+)\b")


class Module:
    def __init__(self, text):
        text = re.sub(r", !srcloc !\d+", "", text)                      # where it stands
        text = re.sub(r"@(?=\d)", "@.unnamed", text)                     # whose numbers are to rise by one
        self.functions, self.variables, self.private, self.declared, self.types, self.numbered = {}, {}, {}, {}, {}, {}
        self.head, rest = [], []
        at = 0
        for m in FUNCTION.finditer(text):
            self.functions[NAME.search(text, m.start())[1]] = m[0]
            rest.append(text[at:m.start()])
            at = m.end()
        rest.append(text[at:])
        for line in "".join(rest).splitlines():
            name = line.split(" ", 1)[0]
            if line.startswith("target "):
                self.head.append(line)
            elif line.startswith("%"):
                self.types[TYPE.match(line)[1]] = line
            elif line.startswith("@"):
                (self.private if " = private " in line else self.variables)[name[1:]] = line
            elif line.startswith("declare "):
                self.declared[NAME.search(line)[1]] = line
            elif line.startswith(("attributes ", "!")):
                key, value = line.split(" = ", 1)
                self.numbered[key.split()[-1]] = value
        inlined = {n for n, v in self.numbered.items() if "alwaysinline" in v}
        self.inlined = {n for n, f in self.functions.items() if f[:f.index("\n")].split()[-2] in inlined}
        self.used = {n: set(NAME.findall(t)) - {n} for n, t in [*self.functions.items(), *self.variables.items(), *self.private.items()]}
        self.meanings = {}

    def meaning(self, name):
        """The function's or variable's text, without what is only a number."""
        if name not in self.meanings:
            text = self.functions.get(name) or self.variables.get(name) or self.private.get(name)
            text = re.sub(r"@(\.str[.\d]*|switch\.table[.\w]*)", lambda m: self.private[m[1]].split(" = ", 1)[1] if m[1] in self.private else m[0], text)
            for private in self.used[name] & self.private.keys():
                if not private.startswith(".str"):
                    text += self.private[private]
            self.meanings[name] = NUMBERED.sub(lambda m: self.content(m[1]), text)
        return self.meanings[name]

    def content(self, number, depth=0):
        value = self.numbered.get(number, number).replace("distinct ", "").replace(number, "self")
        return NUMBERED.sub(lambda m: self.content(m[1], depth + 1), value) if depth < 4 else value

    def types_of(self, names):
        """Those types and what refers to them."""
        names = set(names)
        while True:
            more = {t for t, text in self.types.items() if t not in names and names & set(TYPE.findall(text.split(" = ", 1)[1]))}
            if not more:
                return names
            names |= more

    def part(self, names):
        """A module of these functions and variables."""
        body, seen, private, declared, todo = [], set(), [], [], []
        for name in names:
            seen.add(name)
            todo.append((name, True))
        while todo:
            name, own = todo.pop(0)
            if name in self.functions and (own or name in self.inlined):
                text = self.functions[name]
                body.append(text if name in self.inlined else re.sub(rf"^define {LINKAGE}", "define weak ", text))
            elif name in self.functions:
                header = self.functions[name].split("\n", 1)[0]
                declared.append(re.sub(rf"^define {LINKAGE}", "declare ", header).rstrip("{ "))
                continue
            elif name in self.variables:
                declared.append(shown(self.variables[name]) if own else external(self.variables[name]))
                if not own:
                    continue
            elif name in self.private:
                private.append(self.private[name])
            else:
                if name in self.declared:
                    declared.append(self.declared[name])
                continue
            for used in sorted(self.used[name], key=(self.functions.get(name) or "").find):
                if used not in seen:
                    seen.add(used)
                    todo.append((used, False))
        return self.text([*private, *declared, *body])

    def text(self, lines):
        """Those lines with the types, attributes and metadata that they need."""
        text = "\n".join([*self.head, *self.types.values(), *lines, "!llvm.module.flags = " + self.numbered["!llvm.module.flags"]])
        wanted, todo = set(), {text}
        while todo:
            more = {n for t in todo for n in NUMBERED.findall(t) if n in self.numbered} - wanted
            wanted |= more
            todo = {self.numbered[n] for n in more}
        return text + "\n" + "".join(f"{'attributes ' if n[0] == '#' else ''}{n} = {v}\n" for n, v in self.numbered.items() if n in wanted)

    def whole(self, name):
        """A module of that function with all that it uses, which is its own: nothing but the function is seen outside."""
        used, todo = {name}, [name]
        while todo:
            more = self.used.get(todo.pop(), set()) - used
            used |= more
            todo += more
        own = lambda line: re.sub(rf"^(@\S+ = ){LINKAGE}(?!external )", r"\1internal ", re.sub(r", comdat(\(\$\S+\))?", "", line))
        function = lambda n: re.sub(rf"^define {LINKAGE}", "define protected " if n == name else "define internal ",
                                    re.sub(r" comdat(\([^)]*\))?", "", self.functions[n].split("\n", 1)[0]) + "\n" + self.functions[n].split("\n", 1)[1])
        return self.text([*(self.private[n] for n in self.private if n in used), *(own(v) for n, v in self.variables.items() if n in used),
                          *(d for n, d in self.declared.items() if n in used), *(function(n) for n in self.functions if n in used)])

    def users(self, names):
        """Those names and what uses them."""
        found, todo = set(names), set(names)
        while todo:
            todo = {n for n, used in self.used.items() if n not in found and used & todo}
            found |= todo
        return found

    def parts(self, count):
        """All of it, in that many parts of about the same length."""
        names = [n for n in [*self.functions, *self.variables] if n not in self.inlined]
        shares = [[] for _ in range(count)]
        for name in sorted(names, key=lambda n: -len(self.functions.get(n, ""))):
            min(shares, key=lambda s: sum(len(self.functions.get(n, "")) for n in s)).append(name)
        return [self.part(share) for share in shares]


def shown(line):
    return re.sub(rf"^(@\S+ = ){LINKAGE}", r"\1", line)


def external(line):
    """A variable without its value."""
    if " = external " in line:
        return line
    m = re.match(rf"(@\S+ = ){LINKAGE}(thread_local )?{LINKAGE}(global|constant) ", line)
    end = type_end(line, m.end())
    align = re.search(r", align \d+$", line)
    return f"{m[1]}external {m[2] or ''}{m[3]} {line[m.end():end]}{align[0] if align else ''}"


def type_end(line, at):
    """Where the type that begins there ends: a word or a bracket, then the stars and parameters of pointers."""
    if line[at] in "[{<":
        at = closed(line, at)
    else:
        at = re.compile(r"[%\w.]+").match(line, at).end()
    while True:
        if line[at] == "*":
            at += 1
        elif line.startswith(" (", at):
            at = closed(line, at + 1)
        else:
            return at


def closed(line, at):
    depth = 0
    for i in range(at, len(line)):
        depth += (line[i] in "[{(<") - (line[i] in "]})>")
        if depth == 0:
            return i + 1
    raise ValueError("a type that does not end")


def changed(old, new, inlined=False):
    """The functions and variables of `new` that are not those of `old`, with those that have them inlined; `inlined`: and these themselves."""
    numbers = {n for n in old.numbered.keys() | new.numbered.keys() if old.numbered.get(n) != new.numbered.get(n)}
    numbers |= {"@" + n for n in old.private.keys() | new.private.keys() if old.private.get(n) != new.private.get(n)}
    text = lambda module, name: module.functions.get(name) or module.variables.get(name)
    same = lambda name: text(old, name) == text(new, name) and not (numbers and numbers & set(NUMBERED_OR_STRING.findall(text(new, name))))
    types = {t for t in old.types.keys() | new.types.keys() if old.types.get(t) != new.types.get(t)}
    types = new.types_of(types) | old.types_of(types) if types else types
    found = set()
    for name in [*new.functions, *new.variables]:
        if not text(old, name) or not same(name) and old.meaning(name) != new.meaning(name) or \
                types and types & set(TYPE.findall(text(new, name))):
            found.add(name)
    todo = {n for n in found if n in new.inlined or n in new.variables}         # a constant's value is in its users
    while todo:
        users = {n for n in [*new.functions, *new.variables] if n not in found and new.used[n] & todo}
        found |= users
        todo = {n for n in users if n in new.inlined or n in new.variables}
    return sorted(found if inlined else found - new.inlined)
