"""What a device makes of commands: small models of how devices keep a configuration.

Not of the renderers' making: they know only the grammar (blocks, `no`, `set`, `delete`) and, for
each language, how many words of a line name what it sets.
"""

from __future__ import annotations


def tree(text, comments):
    """Lines by indentation: header -> (nested) lines."""
    root = {}
    stack = [(-1, root)]
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith(comments):
            continue
        depth = len(raw) - len(raw.lstrip())
        while stack[-1][0] >= depth:
            stack.pop()
        below = {}
        stack[-1][1].setdefault(line, below)
        stack.append((depth, stack[-1][1][line]))
    return root


def enter(config, commands, name_words):
    """Enter commands into a configuration, both trees. name_words(line): words that name it."""
    for line, below in commands.items():
        negated = line.removeprefix("no ") if line.startswith("no ") else None
        if negated is not None:
            gone = [old for old in config if (old + " ").startswith(negated + " ")]
            for old in gone:
                del config[old]
            continue
        size = name_words(line)
        name = line.split()[:size]
        for old in [o for o in config if o != line and o.split()[: name_words(o)] == name]:
            if not below and not config[old]:
                del config[old]
        enter(config.setdefault(line, {}), below, name_words)


def text_of(config, depth=0):
    return "".join(
        f"{'   ' * depth}{line}\n" + text_of(below, depth + 1) for line, below in config.items()
    )


class Flat:
    """A configuration of flat statements: `set PATH VALUE`, removed by a prefix of the path."""

    def __init__(self, set_word, delete_word, leaf):
        self.set_word, self.delete_word, self.leaf = set_word, delete_word, leaf
        self.lines = []

    def enter(self, text):
        for line in text.splitlines():
            if line.startswith(self.set_word + " "):
                words = line[len(self.set_word) + 1 :].split()
                if self.leaf(words):
                    self.lines = [old for old in self.lines if old[:-1] != words[:-1]]
                if words not in self.lines:
                    self.lines.append(words)
            elif line.startswith(self.delete_word + " "):
                path = line[len(self.delete_word) + 1 :].split()
                self.lines = [old for old in self.lines if old[: len(path)] != path]

    def text(self):
        return "".join(f"{self.set_word} {' '.join(words)}\n" for words in self.lines)
