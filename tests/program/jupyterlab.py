# jupyterlab.py -- a notebook in JupyterLab, in a headless Chromium: it runs, completes a name, and shows pictures
#
#   python3 tests/program/jupyterlab.py build/mtorch [SCREENSHOT.png]
# Status 77: JupyterLab, selenium (PyPI), Chromium or its driver (Debian: chromium-driver) is missing.
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

program = os.path.abspath(sys.argv[1])
try:
    import jupyterlab  # noqa: F401
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)
chromium, driver = shutil.which('chromium'), shutil.which('chromedriver')
if not chromium or not driver or not os.path.exists(os.path.dirname(program) + '/libmtorch_jupyter.so'):
    print('skipped: chromium, chromedriver or the Jupyter kernel is missing')
    sys.exit(77)

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../notebooks')
port = 18899


def wait_for(what, found, seconds=60):
    for _ in range(seconds * 5):
        result = found()
        if result:
            return result
        time.sleep(0.2)
    raise AssertionError(f'{what} did not come within {seconds} s')


with tempfile.TemporaryDirectory() as folder:
    shutil.copy(root + '/06_digits.ipynb', folder)
    subprocess.run([program, 'jupyter', 'install', '--prefix=' + folder], check=True, stdout=subprocess.DEVNULL)
    environment = dict(os.environ, JUPYTER_PATH=folder + '/share/jupyter', JUPYTER_CONFIG_DIR=folder, HOME=folder)
    server = subprocess.Popen(
        [sys.executable, '-m', 'jupyterlab', '--no-browser', '--allow-root', '--ip=127.0.0.1', f'--port={port}',
         '--ServerApp.token=', '--ServerApp.password=', '--ServerApp.root_dir=' + folder], env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ('--headless=new', '--no-sandbox', '--disable-gpu', '--window-size=1300,1600',
                     '--disable-dev-shm-usage'):
        options.add_argument(argument)
    browser = None
    try:
        def answers():
            try:
                return urllib.request.urlopen(f'http://127.0.0.1:{port}/api')
            except OSError:
                return None
        wait_for('the server', answers)
        browser = webdriver.Chrome(options=options, service=Service(driver))
        browser.get(f'http://127.0.0.1:{port}/lab/tree/06_digits.ipynb')

        def all_of(selector):
            return browser.find_elements(By.CSS_SELECTOR, selector)

        def click(selector, text):
            def find():
                return [e for e in all_of(selector) if e.text == text]
            wait_for(text, find)[0].click()

        wait_for('the notebook', lambda: all_of('.jp-NotebookPanel .jp-Cell'))
        wait_for('the kernel', lambda: 'Idle' in browser.find_element(By.CSS_SELECTOR, '#jp-main-statusbar').text)
        all_of('.jp-Notebook .jp-CodeCell .cm-content')[0].click()
        click('.lm-MenuBar-itemLabel', 'Run')
        click('.lm-Menu-itemLabel', 'Run All Cells')
        # Cells outside the window are not drawn; after a run the last one is in it.
        wait_for('the last result', lambda: any('(8, 1, 3, 3)' in e.text for e in all_of('.jp-OutputArea-output')))
        pictures = [e for e in all_of('.jp-OutputArea-output img') if 'image/svg' in e.get_attribute('src')]
        assert pictures and all(p.size['height'] > 50 for p in pictures), 'pictures'
        assert not all_of('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]'), 'errors'

        cell = all_of('.jp-Notebook .jp-CodeCell .cm-content')[-1]
        cell.click()
        cell.send_keys(Keys.CONTROL, Keys.END)
        cell.send_keys('\nmt.cross_ent', Keys.TAB)
        wait_for('the completion', lambda: any('mt.cross_entropy' in e.text for e in all_of('.cm-content')) or
                 any('cross_entropy' in e.text for e in all_of('.jp-Completer-item')))
        if len(sys.argv) > 2:
            browser.save_screenshot(sys.argv[2])
        print(f'{len(all_of(".jp-OutputArea-output"))} outputs, {len(pictures)} pictures in the window')
    finally:
        if browser:
            browser.quit()
        server.terminate()
        server.wait()
