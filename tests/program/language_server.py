# language_server.py -- the Lua language server finds no fault in the scripts and in the guide's examples, by the stubs
#
#   python3 tests/program/language_server.py FOLDER_OF_STUBS      status 77: lua-language-server is not here
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

server, stubs = shutil.which('lua-language-server'), os.path.abspath(sys.argv[1])
if not server:
    print('skipped: lua-language-server is not here')
    sys.exit(77)
root = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
# Each line has one mistake, which must be found: the check itself works, and knows the types.
wrong = '''local mt = require 'mtorch'
local x = mt.zeros({2, 3}, {dtype = 'flaot32'})
print(x:transpos(1, 2))
print(mt.nn.Linear('2', 3))
print(mt.one_hot())
'''


def problems(folder, settings):
    """What the check of a folder reports: {file name: [line and message]}."""
    with tempfile.TemporaryDirectory() as place:
        with open(place + '/settings.json', 'w') as file:
            json.dump(settings, file)
        subprocess.run([server, '--check=' + folder, '--configpath=' + place + '/settings.json', '--logpath=' + place,
                        '--checklevel=Warning', '--check_format=json'], stdout=subprocess.DEVNULL)
        with open(place + '/check.json') as file:
            found = json.load(file)
    return {os.path.basename(path): sorted((p['range']['start']['line'] + 1, p['message']) for p in of)
            for path, of in (found or {}).items()}


with open(root + '/.luarc.json') as file:
    settings = json.load(file)
settings['workspace.library'] = [stubs]
with tempfile.TemporaryDirectory() as folder:
    count = 0
    for path in [root + '/README.md'] + glob.glob(root + '/docs/guide/*.md'):
        with open(path) as page:
            for code in re.findall(r'^```lua[^\n]*\n(.*?)^```', page.read(), re.M | re.S):
                count += 1
                with open(f'{folder}/{os.path.basename(path)[:-3]}_{count}.lua', 'w') as file:
                    file.write(code)
    with open(folder + '/wrong.lua', 'w') as file:
        file.write(wrong)
    found = problems(folder, settings)
mistakes = [line for line, _ in found.pop('wrong.lua', [])]
found.update(problems(root + '/scripts', settings))
for name, faults in sorted(found.items()):
    for line, message in faults:
        print(f'{name}:{line}: {message}')
if mistakes != [2, 3, 4, 5]:
    print(f'of the mistakes in lines 2 to 5 those in {mistakes} were found')
print(f'{count} examples and the scripts: {sum(map(len, found.values()))} faults')
sys.exit(1 if found or mistakes != [2, 3, 4, 5] else 0)
