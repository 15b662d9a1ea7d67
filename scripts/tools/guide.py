# guide.py -- builds the documents as pages with search, by MkDocs, and checks every link and anchor of the pages
#
#   python3 scripts/tools/guide.py [FOLDER]      into build/guide by default; status 77: MkDocs is missing
#
# mkdocs.yml names this file as its hook: documents outside docs/ become pages too, and paths in the text become links.
import html.parser
import os
import posixpath
import re
import shutil
import subprocess
import sys
import urllib.parse

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
pages = {}  # the path of a document in the repository: the path of its page


def names_in(nav):
    """The documents that `nav` of mkdocs.yml names."""
    for item in nav:
        for value in item.values() if isinstance(item, dict) else [item]:
            yield from names_in(value) if isinstance(value, list) else [value]


def on_config(config):
    with open(root + '/docs/guide/README.md') as guide:
        table = re.findall(r'^\| \[(.*?)\]\((\w+\.md)\)', guide.read(), re.M)
    missing = {n for n in os.listdir(root + '/docs/guide') if n.endswith('.md')} - {n for _, n in table} - {'README.md'}
    assert not missing, f'docs/guide/README.md does not list {missing}'
    for item in config['nav']:
        if 'The guide' in item:
            item['The guide'] = [{'Contents': 'guide/README.md'}] + [{title: 'guide/' + n} for title, n in table]
    for name in names_in(config['nav']):
        pages['docs/' + name if os.path.exists(f'{root}/docs/{name}') else name] = name
    return config


def on_files(files, config):
    from mkdocs.structure.files import File
    for file in list(files):
        if file.is_documentation_page() and 'docs/' + file.src_uri not in pages:
            files.remove(file)  # notes that are no part of the documents
    for path, page in pages.items():
        if path == page:
            files.append(File(page, root, config['site_dir'], False))
    return files


def on_page_markdown(markdown, page, config, files):
    here = next(path for path, name in pages.items() if name == page.file.src_uri)
    folder = posixpath.dirname(page.file.src_uri) or '.'

    def link(path):
        picture = path.startswith('docs/') and path.endswith('.svg')
        to = path[len('docs/'):] if picture else pages.get(path)
        return to and posixpath.relpath(to, folder)

    def target(found):
        path, mark, anchor = found[1].partition('#')
        to = link(posixpath.normpath(posixpath.join(posixpath.dirname(here), path)))
        return f']({to}{mark}{anchor})' if to else found[0]

    def named(found):
        to = found[1] != here and link(found[1])
        return f'[`{found[1]}`]({to})' if to else found[0]

    parts = re.split(r'(^```.*?^```$)', markdown, flags=re.M | re.S)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r'\]\(([^()\s:]+)\)', target, parts[i])
        parts[i] = re.sub(r'(?<!\[)`([\w/]+\.md)`', named, parts[i])
        if here == 'docs/reference.md':  # a heading for each function, so that the search finds it
            parts[i] = re.sub(r'^- (`([\w.:]+))', r'\n### \2\n\n\1', parts[i], flags=re.M)
    for i in range(1, len(parts), 2):
        parts[i] = re.sub(r'^```(\w+) \S+$', r'```\1', parts[i], count=1, flags=re.M)
    return ''.join(parts)


class Page(html.parser.HTMLParser):
    """The anchors and the links of a page."""
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        with open(path) as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == 'id':
                self.anchors.add(value)
            elif name in ('href', 'src') and value:
                self.links.append((tag, value))


def broken_links(folder):
    """The links of the pages that lead nowhere, and the parts of pages that would come from another machine."""
    made = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            made[path] = Page(path) if name.endswith('.html') and name != '404.html' else None
    for path, page in made.items():
        for tag, link in page.links if page else []:
            parts = urllib.parse.urlsplit(link)
            to = os.path.normpath(os.path.join(os.path.dirname(path), parts.path)) if parts.path else path
            anchors = made[to].anchors if made.get(to) else ()
            if not parts.scheme and (to not in made or parts.fragment and parts.fragment not in anchors):
                yield f'{os.path.relpath(path, folder)}: {link} leads nowhere'
            elif parts.scheme and tag != 'a':
                yield f'{os.path.relpath(path, folder)}: {link} needs a network'
    with open(folder + '/search/search_index.json') as index:
        if '"location":"reference.html#matmul"' not in index.read():
            yield 'the search does not find matmul'


if __name__ == '__main__':
    folder = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else root + '/build/guide')
    if not shutil.which('mkdocs'):
        print('skipped: MkDocs is not here (Debian: mkdocs)')
        sys.exit(77)
    build = subprocess.run(['mkdocs', 'build', '--strict', '--clean', '-f', root + '/mkdocs.yml', '-d', folder],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if "theme name: 'material'" in build.stdout:
        print('skipped: the theme of the pages is not here (Debian: mkdocs-material)')
        sys.exit(77)
    faults = [build.stdout] if build.returncode else list(broken_links(folder))
    print('\n'.join(faults) or f'{folder}/index.html')
    sys.exit(1 if faults else 0)
