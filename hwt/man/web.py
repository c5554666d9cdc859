# SPDX-License-Identifier: LGPL-2.1-or-later
"""The manual as web pages, by mandoc: `ninja html` calls this.

web.py SOURCE OUTPUT MANDOC VERSION PAGE=ALIAS,ALIAS... - FILE...

SOURCE is the checkout, OUTPUT the folder to write. A PAGE is called after its file, the FILEs are
the pages as man reads them. The recipes and the plots of SOURCE go along. Needs nothing but
mandoc; where Pygments is there, it colours the recipes.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys

GROUPS = [
    ("To begin with", r"hwt\.7|hwt-advice\.7|hwt-debugging\.7"),
    ("Timers", r"hwt_(timer|stats|version).*\.3"),
    ("Timeouts", r"hwt_timeout.*\.3"),
    ("Heartbeats and retries", r"hwt_(heartbeat|retry|backoff).*\.3"),
    ("Delays that survive", r"hwt[-_]delay.*"),
    ("Delays in several replicas", r"hwt-relay.*"),
]

STYLE = """\
:root { color-scheme: light dark; --line: #8884; --link: #0a58ca; --soft: #8881; }
@media (prefers-color-scheme: dark) { :root { --link: #7fb2ff; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52em; margin: 0 auto; padding: 0 1em 3em;
       overflow-wrap: anywhere; }
header { border-bottom: 1px solid var(--line); padding: .7em 0; margin-bottom: 1em; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
h1 { font-size: 1.15em; margin: 1.6em 0 .4em; }
h2 { font-size: 1.05em; margin: 1.4em 0 .4em; }
.permalink { color: inherit; }
pre, .code { background: var(--soft); border-radius: 6px; padding: .7em .9em; overflow-x: auto;
             font-size: .88em; line-height: 1.4; }
pre pre { padding: 0; background: none; }
table.head, table.foot { width: 100%; color: #888; font-size: .85em; table-layout: fixed; }
td.head-vol, td.foot-date { text-align: center; }
td.head-rtitle, td.foot-os { text-align: right; }
.Bd-indent { margin-left: 0; }
dd { margin-left: 1.6em; }
dt { margin-top: .6em; }
input { font: inherit; width: 100%; box-sizing: border-box; padding: .5em .7em;
        border: 1px solid var(--line); border-radius: 6px; background: transparent; color: inherit; }
ul.names { list-style: none; padding: 0; }
ul.names li { padding: .15em 0; }
ul.names small { color: #888; }
.plot img { width: 100%; background: #fff; border-radius: 6px; }
table.tbl { border-collapse: collapse; display: block; overflow-x: auto; }
table.tbl td { padding: .2em .6em; border-bottom: 1px solid var(--line); vertical-align: top; }
"""

SEARCH = """\
const box = document.getElementById('search'), found = document.getElementById('found');
box.addEventListener('input', () => {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  found.replaceChildren();
  if (!words.length) return;
  const named = (one) => words.every(word => (one[0] + ' ' + one[2]).toLowerCase().includes(word));
  const saying = (one) => !named(one) && one[3] && words.every(word => TEXTS[one[1]].includes(word));
  for (const [name, page, about] of [...NAMES.filter(named), ...NAMES.filter(saying)]) {
    const item = document.createElement('li'), link = document.createElement('a');
    link.href = page; link.textContent = name;
    const small = document.createElement('small');
    small.textContent = ' ' + about;
    item.append(link, small); found.append(item);
  }
  if (!found.children.length) found.textContent = 'No page has these words.';
});
"""


def document(title, body, home=True):
    nav = '<a href="index.html">hwt: the manual</a>' if home else "hwt: the manual"
    return (f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(title)}</title>\n"
            f'<link rel="stylesheet" href="style.css">\n'
            f"<header>{nav}</header>\n{body}\n</html>\n")


def page_file(page):
    return page + ".html"


class Manual:
    def __init__(self, source, output, mandoc, version, pages):
        self.source, self.output, self.mandoc, self.version = source, output, mandoc, version
        self.pages = pages  # page: aliases
        self.about = {}
        self.texts = {}  # file: its words
        self.targets = {}  # name(section): file
        for page, aliases in pages.items():
            name, section = page.rsplit(".", 1)
            for each in [name, *aliases]:
                self.targets[f"{each}({section})"] = page_file(page)

    def write(self, name, text):
        with open(os.path.join(self.output, name), "w", encoding="utf-8") as out:
            out.write(text)

    def link(self, text, own):
        """<b>name</b>(section), or <b>name</b>() of a function, becomes a link."""
        def linked(match):
            name, section = match.group(1), match.group(2) or "3"
            target = self.targets.get(f"{name}({section})")
            return match.group(0) if target in (None, own) else f'<a href="{target}">{match.group(0)}</a>'
        return re.sub(r"<b>([a-z][a-z_-]+)</b>\((\d?)\)", linked, text)

    def add_page(self, path):
        page = os.path.basename(path)
        run = subprocess.run([self.mandoc, "-T", "html", "-O", "fragment", path],
                             check=True, stdout=subprocess.PIPE, encoding="utf-8")
        text = re.sub(r"<pre>.*?</pre>",
                      lambda match: re.sub(r"\n?<br/>", "", match.group(0)), run.stdout, flags=re.S)
        about = re.search(r'id="NAME".*?<p class="Pp">(.*?)</p>', text, re.S)
        self.about[page] = " ".join(html.unescape(about.group(1)).split()).split(" - ", 1)[1]
        words = re.findall(r"[a-z0-9_-]{2,}", html.unescape(re.sub(r"<[^>]*>", "", text)).lower())
        self.texts[page_file(page)] = " ".join(sorted(set(words)))
        self.write(page_file(page), document(page, self.link(text, page_file(page))))

    def add_recipe(self, path):
        name = os.path.basename(path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        try:
            from pygments import highlight
            from pygments.formatters import HtmlFormatter
            from pygments.lexers import get_lexer_for_filename
            body = highlight(text, get_lexer_for_filename(name), HtmlFormatter(noclasses=True, nobackground=True))
        except ImportError:
            body = f"<pre>{html.escape(text)}</pre>"
        self.write(name + ".html", document(name, f"<h1>{name}</h1>\n{body}"))
        about = re.search(r'(?:/\*\n \* |""")(.*?)[:.]', text, re.S)
        return name, " ".join(about.group(1).replace(" * ", " ").split()) if about else ""

    def by_use(self):
        """The pages in the order in which the overviews have them, and what these do not have last."""
        order = ["hwt.7"]
        for overview in ("hwt", "hwt-delay"):
            with open(os.path.join(self.source, "hwt/man", overview + ".7.scd"), encoding="utf-8") as file:
                listed = file.read().split("## Pages\n", 1)[1].split("\n#", 1)[0]
            order += [".".join(found) for found in re.findall(r"\*([a-z_-]+)\*\((\d)\)", listed)]
        return sorted(self.pages, key=lambda page: order.index(page) if page in order else len(order))

    def index(self, recipes, plots):
        # One name of each page is found by its text, too.
        names = sorted([name, page_file(page), self.about[page], name == page.rsplit(".", 1)[0]]
                       for page, aliases in self.pages.items()
                       for name in [page.rsplit(".", 1)[0], *aliases])
        body = [f"<p>hwt {self.version}: a hashed wheel timer for network programs.</p>",
                '<input id="search" type="search" placeholder="Search names and texts" autofocus>',
                '<ul class="names" id="found"></ul>']
        left = {page: self.pages[page] for page in self.by_use()}
        for title, pattern in GROUPS:
            mine = [page for page in left if re.fullmatch(pattern, page)]
            if not mine:
                continue
            body.append(f'<h1>{title}</h1>\n<ul class="names">')
            for page in mine:
                all_names = ", ".join([page.rsplit(".", 1)[0], *left.pop(page)])
                body.append(f'<li><a href="{page_file(page)}">{all_names}</a> '
                            f"<small>{html.escape(self.about[page])}</small></li>")
            body.append("</ul>")
        if left:
            sys.exit(f"web.py: no group has {', '.join(left)}: name one in GROUPS")
        body.append('<h1>Recipes</h1>\n<ul class="names">')
        body += [f'<li><a href="{name}.html">{name}</a> <small>{html.escape(about)}</small></li>'
                 for name, about in recipes]
        body.append("</ul>\n<h1>Measured</h1>")
        body += [f'<p class="plot"><img src="{name}" alt="{name}" loading="lazy"></p>' for name in plots]
        body.append(f"<script>const NAMES = {json.dumps(names)}, TEXTS = {json.dumps(self.texts)};\n{SEARCH}</script>")
        self.write("index.html", document("hwt: the manual", "\n".join(body), home=False))


def check_links(folder):
    """Each link is to a file that is there."""
    for path in files_in(folder, ".html"):
        with open(path, encoding="utf-8") as file:
            for target in re.findall(r'(?:href|src)="([^"#:]+)"', file.read()):
                if not os.path.exists(os.path.join(folder, target)):
                    sys.exit(f"web.py: {path} has a link to {target}, which is not there")


def files_in(folder, ending):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(ending))


def main():
    source, output, mandoc, version, *rest = sys.argv[1:]
    if not shutil.which(mandoc):
        sys.exit("web.py: the pages need mandoc: install it, and say this again")
    split = rest.index("-")
    pages = {page: [alias for alias in aliases.split(",") if alias]
             for page, aliases in (word.split("=") for word in rest[:split])}
    shutil.rmtree(output, ignore_errors=True)
    os.makedirs(output)
    manual = Manual(source, output, mandoc, version, pages)
    for path in rest[split + 1:]:
        manual.add_page(path)
    # The other programs in Python there are tests.
    recipes = [manual.add_recipe(path) for ending in (".c", "reminders.py")
               for path in files_in(os.path.join(source, "tests/recipes"), ending)]
    plots = []
    for name in ("heartbeat", "ratios", "churn-window", "lateness-fire"):
        shutil.copy(os.path.join(source, "perf/results", name + ".svg"), output)
        plots.append(name + ".svg")
    manual.write("style.css", STYLE)
    manual.index(recipes, plots)
    check_links(output)
    print(f"{output}/index.html: {len(pages)} pages, {len(recipes)} recipes")


main()
