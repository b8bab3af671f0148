"""The steps that mkdocs takes besides rendering the pages in docs/: it calls the functions `on_*` here.

They add the API reference, the notebooks as pages, the changelog and the contributing page from the repository's root,
and a page for each source file that a page links to, so that links are the same on the site and in the repository.
"""

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # mkdocs loads this file alone, and not from here

from website import api, notebooks  # noqa: E402

#: Pages of the site that are in the repository's root.
AT_ROOT = ("CHANGELOG.md", "CONTRIBUTING.md")
#: Where the front page of the repository is on the site.
README = "index.md"
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(#[^)\s]*)?(?=\))")
LANGUAGES = {".py": "python", ".toml": "toml", ".md": "markdown", ".txt": "text"}
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the menus that list all of something."""
    designs = sorted((ROOT / "docs" / "design").glob("*.md"), key=lambda page: heading(page.read_text("utf-8")).lower())
    menus = {
        "Design notes": [f"design/{page.name}" for page in designs],
        "API": [api.INDEX, *({title: path} for path, title in api.pages().items())],
    }
    fill(config.nav or [], menus)
    return config


def fill(nav: list, menus: dict[str, list]) -> None:
    """Put the entries of `menus` into the empty menus of that name."""
    for entry in nav:
        for title, below in entry.items() if isinstance(entry, dict) else ():
            if below == []:
                entry[title] = menus[title]
            elif isinstance(below, list):
                fill(below, menus)


def heading(text: str) -> str:
    """The title of a page."""
    return text.split("\n", 1)[0].removeprefix("# ")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for path, text in {**api.texts(), **{name: (ROOT / name).read_text("utf-8") for name in AT_ROOT}}.items():
        files.append(File.generated(config, path, content=text))
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        text = notebooks.markdown(Path(file.abs_src_path).read_text("utf-8"))
        # The link to the notebook is the page, in the repository as here.
        files.remove(file)
        files.append(File.generated(config, notebooks.page_of(file.src_uri), content=text))
    for target in sorted(linked_sources(files)):
        text = f"---\nsearch: {{exclude: true}}\n---\n\n# {target}\n\n{source_block(target)}"
        files.append(File.generated(config, source_page(target), content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links to files outside docs/ lead to their pages here."""
    return rewritten(markdown, page.file.src_uri)


def linked_sources(files: Files) -> set[str]:
    """The files outside docs/ that pages link to."""
    found = set()
    for file in files.documentation_pages():
        for target, _ in LINK.findall(FENCE.sub("", file.content_string)):
            path = in_repository(target, file.src_uri)
            if page_on_site(path) is None and (ROOT / path).is_file():
                found.add(path)
    return found


def in_repository(target: str, page: str) -> str:
    """The path in the repository that a link of a page means."""
    folder = "" if page in AT_ROOT else posixpath.join("docs", posixpath.dirname(page))
    return posixpath.normpath(posixpath.join(folder, target))


def page_on_site(path: str) -> str | None:
    """The page of a file of the repository that is a page, or a notebook, anyway."""
    if path in AT_ROOT:
        return path
    if path == "README.md":
        return README
    if path.startswith("docs/"):
        page = path.removeprefix("docs/")
        return notebooks.page_of(page) if page.endswith(".ipynb") else page
    return None


def source_page(path: str) -> str:
    """The page that shows a source file."""
    return f"source/{path}.md"


def source_block(path: str) -> str:
    """The text of a file, as a block of code that no line of it ends."""
    language = LANGUAGES.get(posixpath.splitext(path)[1], "text")
    return f"`````{language}\n{(ROOT / path).read_text('utf-8').rstrip()}\n`````\n"


def rewritten(markdown: str, page: str) -> str:
    """The text of a page with the links as they are on the site."""

    def link(match: re.Match[str]) -> str:
        path = in_repository(match[1], page)
        target = page_on_site(path) or (source_page(path) if (ROOT / path).is_file() else None)
        if target is None or page.startswith("source/"):
            return match[0]
        return posixpath.relpath(target, posixpath.dirname(page) or ".") + (match[2] or "")

    blocks = FENCE.findall(markdown)
    parts = [LINK.sub(link, part) for part in FENCE.split(markdown)]
    return "".join(part + block for part, block in zip(parts, [*blocks, ""], strict=True))
