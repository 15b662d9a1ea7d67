# jupyter.py -- the Jupyter kernel as a front end sees it, by jupyter_client
#
#   python3 tests/program/jupyter.py build/mtorch      status 77: jupyter_client or the kernel is missing
import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import time

program = os.path.abspath(sys.argv[1])
folder = os.path.dirname(program)
plugins = [folder + '/libmtorch_jupyter.so', folder + '/../lib/mtorch/libmtorch_jupyter.so']
try:
    from jupyter_client import BlockingKernelClient
    from jupyter_client.connect import write_connection_file
except ImportError:
    print('skipped: python3 has no jupyter_client (Debian: python3-jupyter-client)')
    sys.exit(77)
if not any(map(os.path.exists, plugins)):
    print('skipped: this build has no Jupyter kernel (xeus was not found)')
    sys.exit(77)

checks = 0


def check(fine, what):
    global checks
    checks += 1
    if not fine:
        raise AssertionError(what)


class Kernel:
    """A kernel process and its client."""

    def __init__(self, folder):
        path, _ = write_connection_file(os.path.join(folder, 'connection.json'), key=b'of this test')
        begun = time.time()
        self.process = subprocess.Popen([program, 'jupyter', 'kernel', path], stdout=subprocess.DEVNULL)
        # ZeroMQ tries a connection again only after 100 ms, so the start is timed by a socket of our own.
        address = ('127.0.0.1', json.load(open(path))['shell_port'])
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(address) == 0:
                    break
            if self.process.poll() is not None or time.time() > begun + 20:
                raise AssertionError('the kernel ended, or does not listen')
            time.sleep(0.0005)
        self.start_seconds = time.time() - begun
        self.client = BlockingKernelClient(connection_file=path)
        self.client.load_connection_file()
        self.client.start_channels()
        self.client.kernel_info()
        self.info = self.client.get_shell_msg(timeout=20)['content']
        while True:  # until the kernel's messages to all arrive here
            self.client.execute('')
            self.client.get_shell_msg(timeout=20)
            if self.drain() > 0:
                break

    def drain(self):
        """Drops the messages to all that have arrived; returns how many they were."""
        count = 0
        try:
            while self.client.get_iopub_msg(timeout=0.2):
                count += 1
        except queue.Empty:
            return count

    def finish(self, message_id, on_message=lambda message: None):
        """Waits until the request is done; returns the reply's content."""
        while True:
            message = self.client.get_iopub_msg(timeout=20)
            if message['parent_header'].get('msg_id') != message_id:
                continue
            on_message(message)
            if message['msg_type'] == 'status' and message['content']['execution_state'] == 'idle':
                break
        return self.client.get_shell_msg(timeout=20)['content']

    def run(self, code, when_busy=None, **options):
        """The messages of a cell, without its status, and the reply."""
        messages = []
        message_id = self.client.execute(code, **options)
        if when_busy:
            when_busy()
        reply = self.finish(message_id, messages.append)
        return [(m['msg_type'], m['content']) for m in messages
                if m['msg_type'] not in ('status', 'execute_input')], reply

    def result(self, code):
        messages, reply = self.run(code)
        check(reply['status'] == 'ok', (code, reply))
        results = [content['data'] for kind, content in messages if kind == 'execute_result']
        return results[0] if results else None

    def printed(self, code):
        messages, _ = self.run(code)
        return ''.join(content['text'] for kind, content in messages if kind == 'stream')

    def ask(self, request, *arguments):
        getattr(self.client, request)(*arguments)
        return self.client.get_shell_msg(timeout=20)['content']


def test_cells(k):
    check(k.result('1 + 1')['text/plain'] == '2', 'the last expression is shown')
    check(k.result('local a = 5\nlocal function twice(x) return 2 * x end') is None, 'statements show nothing')
    check(k.result('twice(a)')['text/plain'] == '10', 'a local lasts')
    check(k.result('a = a + 1; a')['text/plain'] == '6', 'the last statement is shown')
    check(k.result('a;') is None, 'a semicolon at the end shows nothing')
    check(k.result('nil') is None, 'nil is not shown')
    check(k.printed("print('one') io.write('two\\n') io.stdout:write('three\\n')") == 'one\ntwo\nthree\n', 'print')
    messages, _ = k.run("io.stderr:write('problem') print('fine')")
    check([(c['name'], c['text']) for _, c in messages] == [('stderr', 'problem'), ('stdout', 'fine\n')], messages)
    check(k.printed("print('\\255')") != '', 'text that is not UTF-8')
    messages, _ = k.run("print(1) mt.display(mt.ones(2)) print(2)")
    check([kind for kind, _ in messages] == ['stream', 'display_data', 'stream'], 'displays keep their place')
    texts = []
    with tempfile.TemporaryDirectory() as place:
        def shown(message):
            if message['msg_type'] == 'stream':
                texts.append(message['content']['text'])
                open(place + '/shown', 'w').close()
        k.finish(k.client.execute(f"print('now') repeat until io.open('{place}/shown') print('later')"), shown)
    check(texts == ['now\n', 'later\n'], 'print is shown while the cell runs')
    check(len(k.printed("for i = 1, 20000 do print(i) end").split('\n')) == 20001, 'much text')


def test_values(k):
    x = k.result('mt.range(1, 6):view(2, 3)')
    check('<td>6</td>' in x['text/html'] and '<b>int64</b> (2 x 3) cpu' in x['text/html'], x)
    check(k.result('mt.ones(1000, 1000)')['text/html'].count('<td>') < 400, 'a large matrix is shown by its edges')
    for code in ['mt.zeros(0)', 'mt.tensor(3)', 'mt.ones(2, 3, 4)', 'mt.ones(2, 2):bool()',
                 'mt.ones(3, {requires_grad = true})', 'mt.ones(2, 0)', '{1, {2}, x = mt.ones(2)}', 'mt', 'print',
                 'mt.data.TensorDataset(mt.ones(4, 2))', 'function() end', "'<b>'", '1, nil, 3', '0 / 0']:
        check('text/plain' in k.result(code), code)
    check('image/svg+xml' in k.result('(mt.rand(3, 8, 8) * 255):byte()'), 'an image is a picture')
    check('image/svg+xml' in k.result('(mt.rand(5, 1, 8, 8) * 255):byte()'), 'a batch of images is one picture')
    net = k.result("nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))")
    check(net['text/html'].count('<details') == 2 and '13 parameters' in net['text/html'], net)


def test_displays(k):
    messages, _ = k.run("mt.plot.line{{1, 2, 3}}")
    check(messages[0][1]['data']['image/svg+xml'].startswith('<svg'), messages)
    messages, _ = k.run("for i = 1, 3 do mt.plot.line{{i, 2}, id = 'loss'} end")
    ids = {c['transient']['display_id'] for _, c in messages}
    check([kind for kind, _ in messages] == ['display_data'] + 2 * ['update_display_data'] and len(ids) == 1, messages)
    messages, _ = k.run("for i in mt.progress(30) do os.execute('sleep 0.01') end for i in mt.progress(2) do end")
    bars = {c['transient']['display_id'] for _, c in messages}
    check(len(bars) == 2 and '30/30' in str(messages) and '100%' in messages[-1][1]['data']['text/plain'], messages)
    for name in ('profile(function() return mt.ones(3) + 1 end)', 'explain(mt.matmul, mt.ones(2, 2), mt.ones(2, 2))'):
        messages, _ = k.run(f'mt.{name};')
        check('<details>' in str(messages), messages)


def test_errors(k):
    messages, reply = k.run('local function f() error("deep") end\nlocal function g() f() end\ng()')
    check(messages[0][0] == 'error' and messages[0][1]['evalue'].endswith(']:1: deep'), messages)
    check("in function 'g'" in messages[1][1]['data']['text/plain'], 'the frames can be opened')
    check(reply['status'] == 'error', reply)
    for code, words in [('x = )', "unexpected symbol near ')'"), ('mt.ones(2) + mt.ones(3)', 'do not broadcast'),
                        ('mt.rellu', 'relu'), ('error({})', ''), ('error()', ''), ('local x <', ''),
                        ('(function() local function f() return 1 + f() end return f() end)()', 'stack overflow')]:
        messages, reply = k.run(code)
        check(reply['status'] == 'error' and words in reply['evalue'] and messages[0][0] == 'error', (code, messages))
        check('mtorch/' not in reply['evalue'], reply)
    check(k.result('1')['text/plain'] == '1', 'the kernel goes on')
    kernel = '''local double = mt.kernel(function(x) local i = mt.thread_position and 1 or 1 x[i] = 2 * x[i] end)
return nil'''
    check(k.run(kernel)[1]['status'] == 'ok', 'a kernel in a cell')
    check(k.result('mt.map(function(v) if v > 0 then return v end return 0 end)(mt.ones(2)):sum():item()')
          ['text/plain'] == '2', 'mt.map in a cell')


def test_interrupts(k):
    for code in ['local t = 0 while true do t = t + 1 end',
                 'local a = mt.randn(300, 300) while true do a:matmul(a) end']:
        seconds = []
        while len(seconds) < 3 and not (seconds and seconds[-1] < 1):  # the machine may be busy with something else
            begun = []

            def interrupt(message):
                if message['msg_type'] == 'stream':  # the cell runs: before it Ctrl-C changes nothing
                    time.sleep(0.3)
                    begun.append(time.time())
                    k.process.send_signal(2)
            reply = k.finish(k.client.execute("print('runs') " + code), interrupt)
            check(reply['status'] == 'error' and 'interrupted' in reply['evalue'], reply)
            seconds.append(time.time() - begun[0])
        check(seconds[-1] < 1, f'it took {seconds} s to stop')
    k.process.send_signal(2)
    time.sleep(0.1)
    check(k.result('2')['text/plain'] == '2', 'an interrupt between cells changes nothing')


def test_input(k):
    def answer():
        check(k.client.get_stdin_msg(timeout=10)['content']['prompt'] == '', 'a prompt')
        k.client.input('Ada')
    messages, _ = k.run("io.write('name? ') local name = io.read() print('hello ' .. name)", answer, allow_stdin=True)
    check(''.join(c['text'] for _, c in messages) == 'name? hello Ada\n', messages)
    _, reply = k.run('io.read()', allow_stdin=False)
    check('standard input' in reply['evalue'], reply)


def test_questions(k):
    k.run('ä = nn.Linear(2, 3)')
    for code, at, name, start in [('mt.rel', 6, 'relu', 3), ('x = nn.Lin', 10, 'Linear', 7), ('ä.wei', 5, 'weight', 2),
                                  ("'ö' .. nn.Lin", 13, 'Linear', 10), ('nn.Linear(1, 2, {bi', 19, 'bias=', 17)]:
        reply = k.ask('complete', code, at)
        check(name in reply['matches'] and reply['cursor_start'] == start and reply['cursor_end'] == at, (code, reply))
    check('Linear(' in k.ask('inspect', 'nn.Linear(2, ', 12)['data']['text/plain'], 'the help of a call')
    check(not k.ask('inspect', 'nothing_such', 5)['found'], 'no help')
    for code, status in [('for i = 1, 2 do', 'incomplete'), ('x = 1', 'complete'), ('1 + 1', 'complete'),
                         ('f(', 'incomplete'), ('x = )', 'invalid')]:
        check(k.ask('is_complete', code)['status'] == status, code)
    check(k.ask('kernel_info')['language_info']['name'] == 'lua', 'the language')
    check(k.ask('history')['status'] == 'ok', 'the history')


def test_install(folder):
    for prefix in (folder + '/venv', folder + '/with space'):
        environment = dict(os.environ, HOME=folder)
        environment.pop('VIRTUAL_ENV', None)
        place = prefix + '/share/jupyter/kernels/mtorch'
        for verb, there in (('install', True), ('uninstall', False)):
            subprocess.run([program, 'jupyter', verb, '--prefix=' + prefix], check=True, env=environment,
                           stdout=subprocess.DEVNULL)
            check(os.path.exists(place + '/kernel.json') == there, (verb, place))
            if there:
                description = json.load(open(place + '/kernel.json'))
                check(description['argv'][0] == program and description['interrupt_mode'] == 'signal', description)
    wrong = subprocess.run([program, 'jupyter', 'dance'], capture_output=True, text=True)
    check(wrong.returncode == 2 and 'install' in wrong.stderr, wrong.stderr)


with tempfile.TemporaryDirectory() as place:
    test_install(place)
    kernel = Kernel(place)
    try:
        for test in (test_cells, test_values, test_displays, test_errors, test_interrupts, test_input, test_questions):
            test(kernel)
        answers = []
        for _ in range(20):
            begun = time.time()
            kernel.run('x = 1 + 1')
            answers.append(time.time() - begun)
        memory = open(f'/proc/{kernel.process.pid}/status').read().split('VmRSS:')[1].split()[0]
        kernel.client.shutdown()
        check(kernel.process.wait(timeout=10) == 0, 'the kernel ends with status 0')
    finally:
        kernel.process.kill()
    print(f'{checks} checks passed; start {kernel.start_seconds * 1e3:.0f} ms, a cell {min(answers) * 1e3:.1f} ms, '
          f'{int(memory) // 1024} MB')
