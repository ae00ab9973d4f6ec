"""The pages of the repository as somebody reads them who types what they show: the commands of their shell blocks, and who has typed each."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "src/docs").glob("*.md")),
         "skills/loopwarden/SKILL.md", "clients/python/README.md", "clients/typescript/README.md"]


def blocks(page, language):
    """The fenced blocks of a language."""
    return [block for found, block in re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S) if found == language]


def words(line):
    """A line of a block without its comment: such a comment stands behind two blanks."""
    return re.split(r"\s{2,}#|^#", line)[0].strip()


def commands(page):
    """The commands of a page. A block that is one script is one command."""
    for block in blocks(page, "sh"):
        lines = [words(line) for line in block.splitlines()]
        if block.startswith("for "):
            yield block.strip()
        else:
            yield from filter(None, lines)


def inline(page, start):
    """Commands in the running text and in tables, which begin so."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.M | re.S)
    return [found for found in re.findall(r"`([^`]+)`", text) if found.startswith(start)]


class Typed:
    """What was typed, and what was left out, with its reason."""

    def __init__(self):
        self.known = {(page, command) for page in PAGES for command in commands(page)}
        self.open = set(self.known)

    def the(self, page, *starts):
        """The commands of a page that begin so, in the order of the page; there must be one for each."""
        found = []
        for start in starts:
            fits = [command for command in commands(page) if command.startswith(start)]
            if not fits:
                raise SystemExit("%s shows no command %r any more: adapt tests/first_hour" % (page, start))
            found += fits[:1]
            self.open.discard((page, fits[0]))
        return found

    def skip(self, page, start, why):
        """The commands of a page that begin so are not typed."""
        for command in self.the(page, start):
            print("first hour: not typed, %s: `%s` of %s" % (why, command.splitlines()[0], page))

    def finish(self):
        """Every command of every page was typed or left out with a reason."""
        if self.open:
            lines = ["%s: %s" % (page, command.splitlines()[0]) for page, command in sorted(self.open)]
            raise SystemExit("nobody has typed these commands of the pages:\n  " + "\n  ".join(lines))
