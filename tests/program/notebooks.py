# notebooks.py -- runs every notebook in the Jupyter kernel, and compares what the cells show with what the files have
#
#   python3 tests/program/notebooks.py build/mtorch [NAME ..]           status 77: nbclient or the kernel is missing
#   python3 tests/program/notebooks.py build/mtorch --write [NAME ..]   puts the outputs into the files
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

program = os.path.abspath(sys.argv[1])
write, names = '--write' in sys.argv, [a for a in sys.argv[2:] if not a.startswith('--')]
try:
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
except ImportError:
    print('skipped: python3 has no nbclient (Debian: python3-nbclient)')
    sys.exit(77)
if not os.path.exists(os.path.join(os.path.dirname(program), 'libmtorch_jupyter.so')):
    print('skipped: this build has no Jupyter kernel (xeus was not found)')
    sys.exit(77)


def shown(cell):
    """What a cell shows, without what changes from run to run: times, ids, the drawings of times."""
    parts = []
    measures = re.search(r'timeit|measure|seconds|mt\.time|profile|explain|times|device|cuda|progress', cell.source)
    for output in cell.outputs:
        data = output.get('data', {})
        parts.append(output.output_type + ' ' + ' '.join(sorted(data)))
        if not measures:
            parts.append(output.get('text', '') or data.get('text/html') or data.get('text/plain', ''))
    # Adjacent pieces of a stream may be one message or several.
    return '\n'.join(p for i, p in enumerate(parts) if measures is None or i == 0 or p != parts[i - 1])


failed = 0
root = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../notebooks')
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([program, 'jupyter', 'install', '--prefix=' + folder], check=True, stdout=subprocess.DEVNULL)
    os.environ['JUPYTER_PATH'] = folder + '/share/jupyter'
    for path in sorted(glob.glob(root + '/*.ipynb')):
        if names and not any(name in path for name in names):
            continue
        notebook = nbformat.read(path, 4)
        before = [shown(cell) for cell in notebook.cells if cell.cell_type == 'code']
        begun = time.time()
        try:
            place = {'metadata': {'path': folder}}
            NotebookClient(notebook, timeout=300, kernel_name='mtorch', resources=place).execute()
        except CellExecutionError as error:
            print(f'{os.path.basename(path)}: {error}')
            failed += 1
            continue
        seconds = time.time() - begun
        for cell in notebook.cells:
            cell.metadata.pop('execution', None)
        after = [shown(cell) for cell in notebook.cells if cell.cell_type == 'code']
        if write:
            nbformat.write(notebook, path)
        elif before != after:
            failed += 1
            for number, (old, new) in enumerate(zip(before, after)):
                if old != new:
                    name = os.path.basename(path)
                    print(f'{name}, cell {number + 1}: the file has\n{old[:600]}\nnow it is\n{new[:600]}')
        print(f'{os.path.basename(path)}: {len(after)} cells, {seconds:.1f} s')
sys.exit(1 if failed else 0)
