# debugger.py -- `mtorch debug` as an editor uses it: breakpoints, steps, variables, errors
#
#   python3 tests/program/debugger.py build/mtorch
import json
import os
import subprocess
import sys
import tempfile

program = os.path.abspath(sys.argv[1])
script = '''local mt = require 'mtorch'
local function square(v)
  local result = v * v
  return result
end
local list = {1, 2, name = 'x'}
local x = mt.ones(2, 3)
local sum = 0
for i = 1, 5 do
  sum = sum + square(i)
end
print('sum', sum)
io.stderr:write('done\\n')
local co = coroutine.wrap(function()
  local inside = 7
  coroutine.yield(inside)
end)
co()
error 'the end'
'''
checks = 0


def check(fine, what):
    global checks
    checks += 1
    if not fine:
        raise AssertionError(what)


class Session:
    """A debugged script."""

    def __init__(self, path, points=(), **launch):
        self.process = subprocess.Popen([program, 'debug'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.sequence, self.events, self.output = 0, [], {}
        check(self.ask('initialize')['supportsConfigurationDoneRequest'], 'initialize')
        self.ask('launch', program=path, **launch)
        self.wait_for('initialized')
        self.ask('setBreakpoints', source={'path': path}, breakpoints=list(points))
        self.ask('configurationDone')

    def read(self):
        length = 0
        while True:
            line = self.process.stdout.readline()
            check(line, 'the debugger ended')
            if line == b'\r\n':
                break
            length = int(line.split(b':')[1])
        message = json.loads(self.process.stdout.read(length))
        if message['type'] == 'event':
            if message['event'] == 'output':
                body = message['body']
                self.output[body['category']] = self.output.get(body['category'], '') + body['output']
            self.events.append(message)
        return message

    def send(self, command, **arguments):
        self.sequence += 1
        text = json.dumps({'seq': self.sequence, 'type': 'request', 'command': command, 'arguments': arguments})
        self.process.stdin.write(f'Content-Length: {len(text.encode())}\r\n\r\n{text}'.encode())
        self.process.stdin.flush()

    def ask(self, command, may_fail=False, **arguments):
        self.send(command, **arguments)
        while True:
            message = self.read()
            if message['type'] == 'response' and message['request_seq'] == self.sequence:
                check(may_fail or message['success'], message)
                return message.get('body', message.get('message'))

    def wait_for(self, name):
        while True:
            for i, message in enumerate(self.events):
                if message['event'] == name:
                    del self.events[:i + 1]
                    return message.get('body')
            self.read()

    def stopped(self):
        """Why the script stopped, and the line and the name of the innermost frame."""
        reason = self.wait_for('stopped')['reason']
        top = self.ask('stackTrace', threadId=1)['stackFrames'][0]
        return reason, top['line'], top['name']

    def variables(self, scope='Locals', frame=1):
        scopes = {s['name']: s['variablesReference'] for s in self.ask('scopes', frameId=frame)['scopes']}
        return {v['name']: v for v in self.ask('variables', variablesReference=scopes[scope])['variables']}

    def end(self):
        status = self.wait_for('exited')['exitCode']
        self.process.wait(timeout=10)
        return status


def main(path):
    with open(path, 'w') as file:
        file.write(script)
    s = Session(path, [{'line': 10}])
    check(s.stopped() == ('breakpoint', 10, 'main chunk'), 'a breakpoint')
    names = s.variables()
    check(names['sum']['value'] == '0' and names['i']['value'] == '1', names)
    check('float32' in names['x']['value'] or '1' in names['x']['value'], names['x'])
    rows = s.ask('variables', variablesReference=names['x']['variablesReference'])['variables']
    check([r['name'] for r in rows] == ['[1]', '[2]'] and rows[0]['type'] == 'tensor', rows)
    inside = s.ask('variables', variablesReference=names['list']['variablesReference'])['variables']
    check([v['name'] for v in inside] == ['[1]', '[2]', 'name'] and inside[2]['value'] == '"x"', inside)
    check(s.ask('evaluate', expression='sum + 10 * i', frameId=1)['result'] == '10', 'an expression')
    check(s.ask('evaluate', expression='x:sum():item()', frameId=1)['result'] == '6', 'a tensor')
    for text, shown in (('mt.tensor{true, false}', ['true', 'false']),
                        ("mt.tensor({1}, 'int64') * 2^53 * 4", ['36028797018963968 [() int64 cpu]'])):
        number = s.ask('evaluate', expression=text, frameId=1)['variablesReference']
        elements = [v['value'].strip() for v in s.ask('variables', variablesReference=number)['variables']]
        check(elements == shown, elements)
    check('nil' in str(s.ask('evaluate', may_fail=True, expression='nothing.x', frameId=1)), 'an error in it')
    s.ask('evaluate', expression='sum = 100', frameId=1)
    check(s.variables()['sum']['value'] == '100', 'an assignment')
    s.ask('stepIn')
    check(s.stopped() == ('step', 3, 'square'), 'step in')
    check(s.variables()['v']['value'] == '1', 'its argument')
    reference = s.ask('scopes', frameId=1)['scopes'][0]['variablesReference']
    s.ask('setVariable', variablesReference=reference, name='v', value='5')
    s.ask('next')
    check(s.stopped() == ('step', 4, 'square') and s.variables()['result']['value'] == '25', 'step over')
    check(s.variables(frame=2)['sum']['value'] == '100', 'the frame that calls it')
    outer = s.ask('scopes', frameId=2)['scopes'][0]['variablesReference']
    set_there = s.ask('setVariable', variablesReference=outer, name='sum', value='sum + i')
    check(set_there['value'] == '101', 'a value of the names of the frame that calls it')
    for command, wrong in (('variables', {'variablesReference': 999}), ('scopes', {'frameId': 99}), ('setVariable',
                           {'variablesReference': 0, 'name': 'v', 'value': '1'}), ('evaluate', {'frameId': 99})):
        message = s.ask(command, may_fail=True, **{'expression': '1', **wrong})
        check('no variables have the reference' in message or message == 'there is no frame 99', message)
    s.ask('stepOut')
    check(s.stopped()[1] in (9, 10), 'step out')
    points = s.ask('setBreakpoints', source={'path': path}, breakpoints=[
        {'line': 3, 'condition': 'v == 4'}, {'line': 4, 'logMessage': 'v is {v}'}, {'line': 15}, {'line': 99}])
    points = [(p['line'], p['verified']) for p in points['breakpoints']]
    check(points == [(3, True), (4, True), (15, True), (99, False)], points)
    s.ask('continue')
    check(s.stopped() == ('breakpoint', 3, 'square') and s.variables()['v']['value'] == '4', 'a condition')
    s.ask('continue')
    check(s.stopped()[:2] == ('breakpoint', 15), 'in a coroutine')
    check('v is 2\nv is 3\nv is 4\n' in s.output['console'], s.output)
    check(s.output['stdout'].startswith('sum\t') and s.output['stderr'] == 'done\n', s.output)
    s.ask('setBreakpoints', source={'path': path}, breakpoints=[])
    s.ask('continue')
    check(s.wait_for('stopped')['reason'] == 'exception', 'an error stops the script')
    s.ask('continue')
    check(s.end() == 1 and 'the end' in s.output['stderr'], s.output)

    s = Session(path, stopOnEntry=True)
    check(s.stopped() == ('step', 1, 'main chunk'), 'stop on entry')
    s.ask('disconnect')
    check(s.process.wait(timeout=10) == 130, 'disconnect')

    with open(path, 'w') as file:
        file.write('local n = 0\nwhile true do\n\n  n = n + 1\nend\n')
    s = Session(path)
    check(s.ask('scopes', may_fail=True, frameId=1) == 'the script is running', 'no frames while it runs')
    s.ask('pause', threadId=1)
    check(s.stopped()[0] == 'pause', 'pause')
    moved = s.ask('setBreakpoints', source={'path': path}, breakpoints=[{'line': 2}, {'line': 3}])['breakpoints']
    check([p['line'] for p in moved] == [2, 4], moved)
    s.ask('disconnect')
    s.process.wait(timeout=10)

    with open(path, 'w') as file:
        file.write('print(...)\nlocal x = = 1\n')
    s = Session(path)
    check(s.end() == 1 and "unexpected symbol near '='" in s.output['stderr'], s.output)
    print(f'{checks} checks passed')


with tempfile.TemporaryDirectory() as folder:
    main(os.path.realpath(folder) + '/script.lua')
