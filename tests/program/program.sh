#!/bin/sh
# program.sh -- the program from outside: options, exit status, stdin, bytecode, prompt, terminal
#
#   sh tests/program/program.sh [PROGRAM | BUILD]        (build/mtorch by default)
#
# Prints `ok` or `not ok` for each check and a count; the status is 0 if all are ok.
set -u
. "$(dirname -- "$0")/checks.sh"

tab=$(printf '\t')
# run INPUT ARGUMENTS...: runs the program; sets status, out and err.
run() {
  input=$1
  shift
  printf '%b' "$input" >in
  timeout 120 "$program" "$@" <in >out 2>err
  status=$?
  out=$(cat out) err=$(cat err)
}
# expect NAME STATUS OUTPUT: the last run had exactly this status and output.
expect() {
  if [ "$status" = "$2" ] && [ "$out" = "$3" ]; then ok "$1"; else
    not_ok "$1" "status $status, wanted $2; output: $out; wanted: $3; errors: $err"
  fi
}
lines() { wc -l <"$1" | tr -d ' '; }

# ---- what waits for a terminal or for changes of a file: it runs beside the rest, each part in a folder ----
# typed FOLDER STRING..: types strings at a terminal.
typed() {
  mkdir "$1" && cd "$1" || exit 1
  shift
  echo 4 >completed.txt
  at_terminal "$@"
}
if command -v script >/dev/null; then
  (typed tab 'mt.nn.Linea\t(1,1)\n' 'quit\n') &
  (typed block 'for i = 1, 2 do -- twice\nprint(i * 21)\nend\n' '\033[A\n' \
    'nn.Conv2d(1, 2, 3, {padding_m\t\047zeros\047})\nx = mt.ones(2)\ny = {\nx.shap\t}\ny[1]\n' \
    'io.open("comple\t"):read()\n' 'quit\n') &
fi
mkdir watching && cat >watching/watched.lua <<'EOF'
local mt = require 'mtorch'
local steps = 0
local function value(x)
  steps = steps + 1
  return x + 1
end
local start = os.time()
io.open('started', 'w'):close()
while value(1) < 10 and os.time() < start + 100 do mt.ones(2):sum() end
print(value(1), steps > 1)
EOF
(cd watching && timeout 120 "$program" watch watched.lua >out 2>err) &
(cd watching && await test -e started; sleep 1
  sed 's/x + 1$/x + * 1/' watched.lua >next.lua && cp next.lua watched.lua
  await grep -sq 'old functions stay' err; sleep 1
  sed 's/x + [*] 1$/x + 100/' watched.lua >next.lua && cp next.lua watched.lua) &

# ---- code and scripts ----
run '' -e 'io.write(1 + 1)' && expect '-e runs code' 0 2
run '' -e 'x = 1' -e 'io.write(x + 1)' && expect 'several -e share the state' 0 2
run '' -e 'local mt = require "mtorch" io.write(mt.ones(2, 3):sum():item())' &&
  expect 'require mtorch' 0 6
run '' -e 'io.write(mt.ones(2):sum():item(), tostring(nn.Linear(1, 1)), type(optim.SGD))' &&
  expect '-e has mt, nn and optim' 0 '2Linear(1 -> 1)  2 parametersfunction'
printf 'io.write(tostring(mt), tostring(nn))\n' >bare.lua
run '' bare.lua && expect 'nothing is predefined in a script' 0 nilnil
for name in mt nn optim; do run '' -l $name -e "io.write(type($name))" && expect "-l $name" 0 table; done
printf 'local mt = require "mtorch" -- arg\nio.write("ran")\n' >no_args.lua
for words in '--threads 1' --seed=3 '--device cpu'; do
  # shellcheck disable=SC2086  # words
  run '' no_args.lua $words && expect "$words after a script that does not read it" 0 ran
  has 'is reported' err "mtorch: no_args.lua has no mt.args, so '${words%%[ =]*}' after it has no effect"
done
for text in 'io.write(arg[1])' 'io.write(...)' 'io.write(require("mtorch").args{}.threads)' 'require("beside")'; do
  mkdir -p args && printf '%s\n' "$text" >args/it.lua && echo 'return 1' >args/beside.lua
  run '' args/it.lua --threads 1 && is "no report with $text" "$status:$err" 0:
done
printf 'print(#arg, arg[0], ...)\n' >script.lua
run '' script.lua && expect 'a script' 0 "0${tab}script.lua"
run '' script.lua a 'b c' -e --seed 1 -- &&
  expect 'arguments of a script' 0 "6${tab}script.lua${tab}a${tab}b c$tab-e$tab--seed${tab}1$tab--"
run '' -- script.lua a && expect '-- ends the options' 0 "1${tab}script.lua${tab}a"
run '' -e 'y = 5' script.lua z && expect '-e before a script' 0 "1${tab}script.lua${tab}z"
printf 'io.write(arg[-1] or "", "|", arg[0], "|", arg[1])\n' >names.lua
run '' --seed=3 names.lua one &&
  expect 'arg has the words before the script at negative indices' 0 '--seed=3|names.lua|one'
run 'io.write("from stdin")' && expect 'a script from stdin' 0 'from stdin'
run 'io.write("dash ", ...)' - a b && expect '- is stdin, with arguments' 0 'dash ab'
run '' && expect 'an empty input is not an error' 0 ''
: >empty.lua
run '' empty.lua && expect 'an empty script' 0 ''
printf '#!/usr/bin/env mtorch\nio.write("shebang")\n' >shebang.lua
run '' shebang.lua && expect 'a first line with #!' 0 shebang
printf 'io.write("a")\r\nio.write("b")\r\n' >crlf.lua
run '' crlf.lua && expect 'CRLF' 0 ab
printf '\357\273\277io.write("bom")\n' >bom.lua
run '' bom.lua && expect 'a byte order mark' 0 bom
mkdir -p lib && printf 'return {value = 7}\n' >lib/beside.lua
mkdir lib/pack && printf 'return {value = 8}\n' >lib/pack/init.lua
printf 'io.write(require("beside").value, require("pack").value)\n' >lib/main.lua
run '' lib/main.lua && expect 'require finds files beside the script' 0 78
printf 'answer = 42\nreturn answer\n' >answer.lua
run '' -l answer -e 'io.write(answer)' && expect '-l requires a library' 0 42
run '' -l nothing_there -e 'io.write(1)' && expect '-l of a missing library' 1 ''
has 'and names it' err "module 'nothing_there' not found"
run '' --threads 1 --seed 5 -e 'local mt = require "mtorch" io.write(mt.get_num_threads())' &&
  expect '--threads' 0 1
for threads in 1000000 4000000000 -5 0 2x many; do
  OMP_NUM_THREADS=$threads run '' -e 'io.write(mt.ones(1e6):sum():item(), " ",
    mt.linalg.inv(mt.eye(300)):sum():item(), " ") io.flush() os.execute("ls /proc/$PPID/task | wc -l")' &&
    is "OMP_NUM_THREADS=$threads" "$status:${out% *}" '0:1000000 300'
  has 'is reported' err OMP_NUM_THREADS
  most=$(($(nproc) * 4 + 2))
  [ "${out##* }" -le $((most > 18 ? most : 18)) ] && ok 'is bounded' || not_ok 'is bounded' "$out"
done
run '' --seed 5 -e 'io.write(require("mtorch").rand(1):item())' && first=$out
run '' -e 'local mt = require "mtorch" mt.manual_seed(5) io.write(mt.rand(1):item())'
is '--seed is manual_seed' "$out" "$first"
run '' --seed 6 -e 'io.write(require("mtorch").rand(1):item())'
[ "$out" != "$first" ] && ok 'another seed gives other numbers' || not_ok 'another seed gives other numbers' "$out"

# ---- several processes ----
printf 'local dist = require("mtorch").dist\nio.write(dist.rank(), arg[1], "\\n") os.exit(dist.rank() * 3)\n' >rank.lua
if command -v mpirun >/dev/null; then
  run '' --seed 1 --processes 2 rank.lua --processes=9
  is '--processes starts them; the status is that of the job' "$status:$(grep -- -- out | sort | tr '\n' ' ')" \
    '3:0--processes=9 1--processes=9 '
fi
run '' --processes 1 rank.lua x && expect 'one process needs no mpirun' 0 0x
err=$(PATH=/none "$program" --processes 2 rank.lua 2>&1 >/dev/null)
is 'without mpirun one sentence' "$?:$err" \
  '1:mtorch: --processes: there is no mpirun; on Debian: apt-get install openmpi-bin'

# ---- exit status and messages ----
run '' --version && expect '--version ends' 0 "$out"
has '--version names the program and LuaJIT' out 'LuaJIT 2.'
run '' -v -e 'io.write("x")' && has '-v and then the code' out x
run '' -ve 'io.write("x")' && has 'options of one letter in one word' out x
run 'io.write(#arg, " ", select("#", ...))' - $(seq 9000) && expect 'many arguments' 0 '9000 9000'
run '' --help && is '--help' "$status" 0
for word in -e -l -i --version --device --threads --processes --hosts --restarts --seed script; do
  has "--help shows $word" out "$word"
done
run '' --helpp && is 'an unknown option is a usage error' "$status" 2
has 'and is named' err "--helpp"
has 'on stderr, with the usage' err usage
for words in '-e' '--threads 0' '--threads many' '--seed abc' '--threads' '--processes 0' \
  '--processes 2'; do
  # shellcheck disable=SC2086  # words
  run '' $words && is "usage error: $words" "$status" 2
  is "nothing on stdout: $words" "$out" ''
done
# usage_error WORDS SENTENCE: the program reports a usage error in one sentence.
usage_error() {
  # shellcheck disable=SC2086  # words
  run '' $1 && is "usage error: $1" "$status:$(head -n 1 err)" "2:mtorch: $2"
}
run '' --threads 2 --threads 3 -e "print(require 'mtorch'.get_num_threads())" &&
  is 'of an option that is given twice the last counts' "$out" 3
usage_error --device '--device needs a value'
usage_error -e '-e needs a value'
usage_error '--hosts a:2,b:0 x.lua' \
  "--hosts: machines with numbers of processes are needed, as in a:4,b:4, got 'a:2,b:0'"
usage_error '--hosts a:2,b --processes 4 x.lua' '--hosts a:2,b has 3 places, fewer than --processes 4'
usage_error '--threads 1.5' "--threads: a whole number from 1 to 1024 is needed, got '1.5'"
usage_error '--seed=x' "--seed: a number is needed, got 'x'"
usage_error '--thread=3' "unknown option '--thread=3' (did you mean --threads?)"
usage_error '-z' "unknown option '-z'"
usage_error 'doctor --help' 'doctor takes no arguments'
run '' compare --none x && is 'compare with an unknown option is a usage error' "$status" 2
printf 'print("named")' >-x.lua
run '' -- -x.lua && is 'after -- a name may begin with -' "$out" named
rm ./-x.lua
# hinted CODE HINT: what the error adds.
hinted() {
  printf '%s\n' "$1" >hinted.lua
  run '' hinted.lua && has "a hint for $1" err "$2"
}
hinted 'mt.ones(2)' "(a nil value) (local mt = require 'mtorch' comes first)"
hinted 'local x = nn.ReLU()' '(a nil value) (it is mt.nn: local nn = mt.nn)'
hinted 'require "nn"' "module 'nn' not found (it is mt.nn: local nn = mt.nn)"
mt='local mt = require "mtorch"'
hinted "$mt mt.nn.Linear(1, 2):training()" 'value) (it is a field; net:train() and net:eval() set it)'
hinted "$mt mt.nn.Linear(1, 2):updateOutput()" "(Linear has no 'updateOutput'; here it is net(x))"
hinted 'local a = mt
(a).b = 1' 'a line that begins with ( continues the one before it'
hinted 'tensor{1}' '(a nil value) (it is mt.tensor)'
hinted 'Linear(2, 3)' '(a nil value) (it is mt.nn.Linear)'
hinted 'print(len(x))' '(a nil value) (Lua writes #x)'
hinted 'torch.ones(2)' "(a nil value) (here it is mt: local mt = require 'mtorch')"
hinted 'x += 2' '(there is no +=: write x = x + 1)'
hinted 'if x != 2 then end' '("not equal" is ~=, "not" is the word not)'
hinted 'x = f(a, dim=1)' '(named options go in a table, f(x, {dim = 1}))'
hinted 'x = [1, 2]' '(a list is {1, 2})'
hinted 'for a, b in zip(x, y) do end' '(Lua writes for i = 1, #x do local a, b = x[i], y[i] .. end)'
hinted 'local ok = 1 == 2 print(ok:sum())' '(== of tensors asks whether they are one object; x:eq(y) compares elements)'
hinted 'local n = 0 + (1 == 1)' 'x:eq(y) compares elements)'
hinted 'print((1 == 1):item(), x:any())' '(any and all of a whole tensor are Lua booleans already)'
hinted 'if c then x() elif d then y() end' '(Lua writes elseif)'
hinted 'for i = 1, 3 do if i then continue end end' '(Lua has no continue: '
hinted 'print(x[:, 1])' "(a column is x[{{}, 1}] or x[':, 1'])"
hinted 'print(x[1:3])' "(rows 1 to 3 are x[{{1, 3}}] or x['1:3'])"
hinted 'print(x[1, 2])' '(an element is x[{1, 2}]'
hinted 'f = lambda v: v * 2' '(Lua writes function(x) return x * 2 end)'
hinted 'def f(x):' '(Lua writes function f(x) .. end)'
hinted 'class Net(nn.Module):' "local Net = nn.class 'Net'"
hinted 'import torch' "(Lua writes local mt = require 'mtorch')"
hinted 'with mt.no_grad():' '(Lua has no with: mt.no_grad(function() .. end))'
hinted 'try:
  x = 1' '(Lua writes local ok, message = pcall(function() .. end))'
hinted 'if x is None then end' '(Lua writes x == nil)'
hinted 'y = 1 if x else 2' '(Lua writes condition and a or b)'
hinted 'z = x @ y' '(a product of matrices is x:matmul(y))'
hinted 'local x = io.stdout for row in x do end' '(over the rows of a tensor: '
hinted "print('%d' % 3)" "formatted by ('%d'):format(n))"
hinted "print('-' * 20)" '(text is joined by .., repeated by s:rep(n)'
hinted 'list = {} list.append(3)' '(Lua writes list[#list + 1] = value)'
hinted 'local mt = require "mtorch" return mt.tensor{"a"}' '(a tail call loses its line; return (f(x)) keeps it)'
# told_once CODE HINT: what is said on stderr, once for the line, without an error.
told_once() {
  printf '%s\n' "local mt = require 'mtorch' local nn = mt.nn for i = 1, 5 do" "$1" end >once.lua
  run '' once.lua && is "a word about $1" "$status:$(cat err)" "0:mtorch: once.lua:2: $2"
}
told_once 'local flag = False' 'False is nil here; Lua writes false'
told_once 'mt.rand(1, 5):softmax(1)' \
  "softmax: dimension 1 has one element, so all results are 1; PyTorch's dim=1 is 2 or -1 here"
told_once 'mt.rand(1, 5):argmax(1)' \
  "argmax: dimension 1 has one element, so all results are 1; PyTorch's dim=1 is 2 or -1 here"
told_once 'mt.cross_entropy(mt.rand({2, 3}, {requires_grad = true}):softmax(2), mt.long{1, 2})' \
  'cross_entropy takes scores (logits), of which it takes the softmax itself; these are of softmax'
told_once 'local net = nn.Linear(1, 1) net.wieght = mt.ones(1)' "Linear had no 'wieght' so far; did you mean 'weight'?"
told_once 'w = w or mt.ones(1):requires_grad_() o = o or mt.optim.SGD{w}; (w * 2):sum():backward() o:step()' \
  'step: gradients are added to those of the steps before; call opt:zero_grad() before backward'
cat >quiet.lua <<'EOF'
local mt = require 'mtorch'
local nn = mt.nn
local net, twice = nn.Linear(3, 3), false
local opt = mt.optim.SGD(net:parameters())
for i = 1, 12 do -- gradients of several backwards, cleared in each way
  if i < 5 then opt:zero_grad() elseif i < 9 then net:zero_grad() else net.weight.grad:zero_() net.bias.grad:zero_() end
  for _ = 1, i % 3 + 1 do mt.cross_entropy(net(mt.rand(2, 3)), mt.long{1, 2}):backward() end
  opt:step()
end
mt.rand(1, 1):softmax(1) mt.rand(1):softmax(1) mt.rand(1, 5):softmax(-1) mt.rand(2, 5):argmax(1)
net.scale, net.weights = mt.ones(1), mt.ones(1)
EOF
run '' quiet.lua && is 'and none where all is well' "$status:$(cat err)" 0:
run 'print(mt.ones(2):sum():item(), nn == mt.nn)' && expect 'a script from stdin has mt and nn' 0 "2${tab}true"
run '' -e '1 + 1' -e 'mt.ones(2), 3' && expect '-e shows the value of an expression' 0 "2
  1.  1.
[(2) float32 cpu]${tab}3"
run '' -e 'print("w", mt.ones(2, 2), mt.ones(1):sum(), 5)' && expect 'print keeps the rows of a matrix in line' 0 \
  "w${tab}  1.  1.
 ${tab}  1.  1.
 ${tab}[(2 x 2) float32 cpu]${tab}1.${tab}5"
cat >stops.lua <<'EOF'
local mt = require 'mtorch'
local factor = 3
local function f(a)
  local c = a * factor
  mt.debug()
  return c
end
print(f(2), factor)
EOF
run 'a, c\nc = 7\nfactor = 9\nlocals\nup\nfactor\ndown\na +\nnope.x\ncontinue\n' stops.lua
expect 'mt.debug is a prompt with the variables of its caller' 0 "stops.lua:5 in f; 'help' lists the commands
2${tab}6
  c = 7
  a = 2
  factor = 9
  mt = mt: mt.help() lists its names
stops.lua:8 in the main chunk
9
stops.lua:5 in f
debug:1: '=' expected near '+' (there is no +=: write x = x + 1)
debug:1: attempt to index global 'nope' (a nil value)
7${tab}9"
run 'quit\n' stops.lua && is 'and ends the script' "$status:$(head -n 1 err)" '1:mtorch: stopped at mt.debug'
usage_error watch 'watch needs a script: mtorch watch train.lua'
run 'x += 2' - && has 'also from standard input' err '(there is no +='

run '' missing.lua && expect 'a missing script' 1 ''
has 'is named' err missing.lua
run '' lib && expect 'a directory as script' 1 ''
printf 'local x = = 1\n' >syntax.lua
run '' syntax.lua && expect 'a syntax error' 1 ''
has 'with file and line' err 'syntax.lua:1:'
lacks 'and no traceback' err 'stack traceback'
run '' -e 'x =' && expect 'a syntax error in -e' 1 ''
printf 'local function f()\n  error("told")\nend\nio.write("before")\nf()\n' >wrong.lua
run '' wrong.lua && expect 'an error' 1 before
has 'its message' err 'mtorch: wrong.lua:2: told'
has 'the traceback' err 'stack traceback:'
has 'and where it was called' err 'wrong.lua:5: in main chunk'
printf 'local mt = require "mtorch"\nlocal x = mt.zeros(2, 3)\n\nlocal y = x:matmul(x)\n' >shapes.lua
run '' shapes.lua && expect 'an error of mtorch' 1 ''
has 'has the line of the script' err 'mtorch: shapes.lua:4: matmul: inner sizes differ: (2 x 3) and (2 x 3)'
lacks 'and no traceback, which would repeat the line' err 'stack traceback'
run '' -e 'local mt = require "mtorch" mt.help("matmull")' && expect 'help for an unknown word' 1 ''
is 'is one sentence at the line' "$(cat err)" \
  "mtorch: (command line):1: help: nothing is called 'matmull' (did you mean 'matmul'?)"
run '' -e 'local x = require("mtorch").ones(1) return x < 0' && has 'a hint for x < 0' err 'x:lt(y)'
run '' -e 'local x = require("mtorch").ones(1) return unpack(x)' && has 'a hint for unpack(x)' err 'x:tolist()'
run '' -e 'local x = require("mtorch").ones(1) x.data:copy_(x)' && has 'a hint for x.data' err 'x:copy_(y)'
run '' -e 'for _ in ipairs(mt.data.DataLoader(mt.data.xor(4))) do end' &&
  has 'a hint for ipairs(loader)' err 'loader:iter()'
run '' -e 'for _ in pairs(nn.ReLU():named_parameters()) do end' &&
  has 'a hint for pairs of an iterator' err 'needs no pairs'
run '' -e 'for _ in nn.ReLU():parameters() do end' && has 'a hint for a list as an iterator' err 'ipairs(list)'
run '' -e 'local w = mt.ones(1) w = w - w.grad * 2' &&
  has 'a hint for a missing gradient' err 'w:sub_(w.grad * lr)'
run '' -e 'local n = require("mtorch").nn.Linear(1, 1) n:parametres()' &&
  has 'a hint for an unknown method of a module' err "(Linear has no 'parametres'; did you mean 'parameters'?)"
run '' -e 'local n = require("mtorch").nn.Linear(1, 1) return n.wieght:t()' &&
  has 'a hint for an unknown field of a module' err "(Linear has no 'wieght'; did you mean 'weight'?)"
run '' -e 'local n = require("mtorch").nn.Linear(1, 1) local _ = n.more local t = {} t.other:x()' &&
  lacks 'no hint for another name' err 'Linear has no'

run '' -e 'print(("%f"):format(require("mtorch").ones(1):sum()))' &&
  has 'a hint for a tensor instead of a number' err '(the number in a tensor is x:item())'
run '' -e 'require("mtorch").nn.Linear.extra()' &&
  has "a Lua error inside the library has the user's line" err 'mtorch: (command line):1: mtorch/nn/describe.lua:'
has 'and a hint' err '; are methods called with a colon'
run 'f = function(x) return x:matmul(x) end\nf(mt.ones(2, 3))\nmt.ones(2, 3):view(7)\nmt.ones(2).x\n3 -- three\n' -i &&
  expect 'at the prompt' 0 3
has 'a tail call has its line' err 'mtorch: stdin:1: matmul: inner sizes'
has 'and so has a call' err 'mtorch: stdin:1: view: '
has 'and a field' err "mtorch: stdin:1: a tensor has no field or method 'x'"

run '' -e 'error({})' && expect 'an error that is a table' 1 ''
has 'is described' err 'table'
run '' -e 'error(setmetatable({}, {__tostring = function() return "own text" end}))' &&
  has 'or converted by __tostring' err 'own text'
run '' -e 'error()' && is 'an error that is nil' "$status" 1
run '' -e 'local function f() return 1 + f() end f()' && expect 'endless recursion' 1 ''
has 'is a stack overflow' err 'stack overflow'
printf '%s\n' 'local nn = require("mtorch").nn' 'local Net = nn.class "Net"' \
  'function Net:forward(x) return (self(x)) end' 'Net()(1)' >forward.lua
run '' forward.lua && expect 'a forward that calls itself' 1 ''
has 'is a stack overflow at its line' err 'mtorch: forward.lua:3: stack overflow: does a function call itself?'
echo 'local function f() return require("mtorch").no_grad(f) + 1 end f()' >deep.lua
if [ -z "${MTORCH_SANITIZED:-}" ]; then # with sanitizers the default stack is small enough
  (ulimit -s 1024 && "$program" deep.lua) >out 2>err
  is 'endless recursion through C, on a small stack' $? 1
  has 'is a stack overflow too' err 'deep.lua:1: stack overflow: '
fi
for f in 'coroutine.wrap(f)()' 'return (("x"):gsub("x", f))' 'coroutine.wrap(function() ("x"):gsub("x", f) end)()' \
  'local _, e = coroutine.resume(coroutine.create(f)) error(e, 0)' \
  'coroutine.wrap(function() require("mtorch").no_grad(f) end)()'; do
  run '' -e "local function f() $f end f()" && is "endless $f" "$status" 1
  has 'is a stack overflow' err 'stack overflow'
  [ "$(wc -c <err)" -lt 5000 ] && ok 'the message is short' || not_ok 'the message is short' "$(wc -c <err) bytes"
done
run '' -e 'local w = coroutine.wrap(function(a) error(a .. coroutine.yield(1)) end)
io.write(w("x")) w("y")' && is 'an error in a coroutine' "$status:$out" 1:1
is 'has both lines' "$(head -n 1 err)" 'mtorch: (command line):2: (command line):1: xy'
for n in 0 1 7 42 255; do run '' -e "io.write('x') os.exit($n)" && expect "os.exit($n)" "$n" x; done
run '' -e 'os.exit()' && is 'os.exit()' "$status" 0
run '' -e 'os.exit(true)' && is 'os.exit(true)' "$status" 0
run '' -e 'os.exit(false)' && is 'os.exit(false)' "$status" 1
run '' -e 'local f = io.open("flushed", "w") f:write("all") os.exit(0)' &&
  is 'os.exit flushes files' "$(cat flushed)" all
run '' -e 'local x = require("mtorch").ones(3):requires_grad_() kept = {}
  for i = 1, 300 do local y = x * 2 kept[i] = y:exp() y:register_hook(function() return kept end) end
  io.write("x")' && expect 'hooks that live until the program ends' 0 x
run '' -e 'local mt = require("mtorch") local x = mt.ones(3):requires_grad_() late = newproxy(true)
  debug.getmetatable(late).__gc = function() (x * 2):register_hook(print) end
  also = newproxy(true)
  debug.getmetatable(also).__gc = function() mt.recompute(function(y) return y * 2 end, x) end
  x:register_hook(print) io.write("x")' && expect 'a hook from a finalizer at the end' 0 x
run '' --device gpu -e 'io.write("not reached")' && expect 'an unknown device' 2 ''
has 'is named' err "'gpu'"
has 'after the option' err 'mtorch: --device: device'
is 'a script from a pipe is read once' "$(echo 'print(7)' | "$program" /dev/stdin --threads 1 2>&1)" 7
run '' -e 'for i = 1, require("mtorch").ones(2):sum() do end' && has 'a tensor as a limit' err 'x:item()'
run '' --threads 1000 -e '' && has 'the error of an option has no script line' err 'mtorch: set_num_threads: 1000'
run '' --device "cpu') io.write('injected" -e '' && lacks 'an option is data, not code' out injected
run '' -E -e 'io.write(1)' && expect '-E' 0 1
"$program" -e 'for i = 1, 1e6 do io.write("line\n") end' 2>err | head -n 1 >out
lacks 'a closed pipe does not crash' err 'terminate'

# ---- little memory ----
cat >chain.lua <<'EOF'
local mt = require 'mtorch'
local x = mt.ones(10):requires_grad_()
local y = x
print(pcall(function()
  while true do y = y + 1 end
end))
y = nil
local z = (x * 2):sum()
z:backward()
print(x.grad:sum():item())
EOF
cat >lists.lua <<'EOF'
local mt = require 'mtorch'
local t = {}
for i = 1, 8e6 do t[i] = i end
local keep = {}
print(pcall(function() for i = 1, 100 do keep[i] = mt.tensor(t) end end))
print(pcall(mt.zeros, t))
keep = nil
print(mt.ones(3):sum():item())
EOF
limited() { (ulimit -v 700000 && OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 timeout 120 "$program" "$1" >out 2>err); }
if [ -z "${MTORCH_SANITIZED:-}" ]; then # the sanitizers' shadow memory needs terabytes of addresses
  limited chain.lua
  is 'a recorded chain that fills the memory' "$?:$(cat err)" 0:
  has 'is out of memory at its line' out "false${tab}chain.lua:5: add: out of memory: "
  is 'and the rest of the graph works' "$(tail -n 1 out)" 20
  limited lists.lua
  is 'lists that fill the memory' "$?:$(cat err)" 0:
  has 'are out of memory' out 'tensor: out of memory: '
  has 'also as a shape' out 'zeros: out of memory: '
  lacks 'not as bad_alloc' out bad_alloc
  is 'and tensors can be made after that' "$(tail -n 1 out)" 3
  cat >ctc.lua <<'EOF'
local mt = require 'mtorch'
local n = 2 ^ 14
local lengths, labels = mt.full({2}, n):long(), mt.full({2, n / 2}, 2):long()
print(pcall(mt.ctc_loss, mt.zeros(n, 2, 2), labels, lengths, mt.full({2}, n / 2):long()))
EOF
  (ulimit -v 700000 && OMP_NUM_THREADS=2 timeout 60 "$program" ctc.lua >out 2>err)
  is 'threads that run out of memory' "$?:$(cat err)" 0:
  has 'are reported' out 'ctc_loss: out of memory'
fi

# ---- output streams that cannot be written ----
# expect_lost NAME STATUS REDIRECTIONS ARGUMENTS...: the program exits with the status.
expect_lost() {
  name=$1 wanted=$2
  shift 2
  printf 'error(2)\n' | sh -c "exec timeout 60 '$program' \"\$@\" $1" "$@" 2>err
  status=$?
  [ $status = "$wanted" ] && ok "$name" || not_ok "$name" "status $status, wanted $wanted: $(cat err)"
}
for to in '2>/dev/full' '2>&-' '>/dev/full 2>/dev/full' '>&- 2>&-'; do
  expect_lost "an error with $to" 1 "$to" -e 'error "x"'
  expect_lost "a syntax error with $to" 1 "$to" -e 'x ='
  expect_lost "a wrong option with $to" 2 "$to" --nope
  expect_lost "os.exit with $to" 3 "$to" -e 'io.stderr:write("x") os.exit(3)'
done
expect_lost 'an error at a prompt whose stderr is closed' 0 '2>&-' -i
for to in '>/dev/full' '>&-'; do
  expect_lost "lost output with $to" 1 "$to" -e 'print(1)'
  has 'is reported' err 'mtorch: cannot write standard output: '
  expect_lost "much lost output with $to" 1 "$to" -e 'for i = 1, 1e5 do print(i) end'
  expect_lost "lost output and os.exit(0) with $to" 1 "$to" -e 'print(1) os.exit(0)'
  expect_lost "no output with $to" 0 "$to" -e 'x = 1'
  for words in doctor --help --version; do expect_lost "$words with $to" 1 "$to" $words; done
done
run '' -e 'local f = io.open("own", "w") print("printed") f:write("mine") f:close()'
(exec >&- && "$program" -e 'local f = io.open("own", "w") print("printed") f:write("mine") f:close()') 2>err
is 'output to a closed stream is not written to another file' "$(cat own)" mine

# ---- output files ----
mkfifo trace && (cat trace >copied &) && run '' --profile=trace -e 'local x = require("mtorch").ones(2):exp()'
is 'a profile into a FIFO' "$status" 0
await grep -q traceEvents copied
has 'is read at its other end' copied '"traceEvents"'
[ -p trace ] && ok 'which stays a FIFO' || not_ok 'which stays a FIFO' "$(ls -l trace)"
ln -s /dev/full full
run '' --profile=full -e 'io.write("ran")' && expect 'a profile into a full device' 0 ran
has 'is reported' err "profile: cannot write 'full': No space left on device"
echo kept >kept && chmod 444 kept
run '' --profile=kept -e 'io.write("ran")' && expect 'a profile into a read-only file ends before the run' 1 ''
has 'and names it' err "profile: cannot write 'kept': it is read-only"
run '' --profile=/dev/stdout -e 'print("printed")' && has 'a profile into standard output' out traceEvents
is 'comes after what was printed' "$(head -n 1 out)" printed

# ---- bytecode ----
printf 'io.write("bytecode ran")\n' >plain.lua
run '' -e 'local f = io.open("code.lua", "wb") f:write(string.dump(loadfile("plain.lua"))) f:close()'
[ -s code.lua ] && ok 'bytecode made' || not_ok 'bytecode made' "$err"
if command -v luajit >/dev/null; then luajit -b plain.lua code.lua; fi
run '' code.lua && expect 'a script of bytecode is refused' 1 ''
run "$(cat plain.lua)" - && is 'text on stdin' "$out" 'bytecode ran'
timeout 20 "$program" - <code.lua >out 2>err
status=$? out=$(cat out) err=$(cat err)
expect 'bytecode on stdin is refused' 1 ''
for call in 'load(b)' 'loadstring(b)' 'loadfile("code.lua")' 'load(function() local c = b b = nil return c end)' \
  'load(b, "x", "b")' 'load(b, "x", "bt")' 'loadfile("code.lua", "b")'; do
  run '' -e "b = io.open('code.lua', 'rb'):read('*a') local f, m = $call io.write(tostring(f), '|', tostring(m))"
  case $status:$out in
    0:nil\|*bytecode*) ok "$call refuses bytecode" ;;
    *) not_ok "$call refuses bytecode" "status $status: $out $err" ;;
  esac
done
for call in 'dofile("code.lua")' 'require("code")'; do
  run '' -e "$call" && expect "$call refuses bytecode" 1 ''
done
run '' -e 'io.write(load("return 5")(), loadstring("return 6")(), load(function() return nil end) and 7 or 8)' &&
  expect 'load takes text' 0 567
run '' -e 'io.write(dofile("answer.lua"), loadfile("answer.lua")(), tostring(load("return y", "c", "t", {y = 9})()))' &&
  expect 'dofile, loadfile and environments' 0 42429
run '' -e 'local f, m = load("x = =", "=mine") io.write(tostring(f), m)' &&
  has 'load names what is wrong' out 'mine:1:'

# ---- the prompt, through a pipe ----
run '1+1\n=1+1\nx = 3\nx\nerror("a")\n2+2\n' -i &&
  expect 'the prompt prints values and survives errors' 0 '2
2
3
4'
has 'the error is on stderr' err 'a'
run 'for i = 1, 2 do\nprint(i)\nend\n(function()\nreturn 5\nend)()\n' -i &&
  expect 'unfinished input is continued' 0 '1
2
5'
run 'x = = 1\n7\n' -i && expect 'a syntax error is survived' 0 7
run 'x = 5; x\nlocal y = 3\ny + x\n1 +\n1\n' -i && expect 'a last expression is shown, and a local lasts' 0 '5
8
2'
run 'mt.relu\nfunction twice(a) return 2 * a end\ntwice\n?twice\nhelp(mt.relu)\n:doc mt.relu\n' -i
has 'a function is shown by its help' out 'relu(x, {out=}): max(x, 0)'
is 'and one without help by its head' "$(grep -c '^function(a) of stdin:1$' out)" 2
is 'help(f) and :doc f are mt.help' "$(grep -c '^mt.relu(x, {out=})' out)" 2
run ':time 40 + 2\n:profile x = mt.ones(2)\n!echo from the shell\n:nope\n' -i
has ':time shows the time' out 'Wall time'
is 'and the value' "$(grep -c '^42$' out)" 1
has ':profile shows operations' out ones
has '! runs a command' out 'from the shell'
has 'an unknown command' err "there is no command ':nope'"
printf 'echo "6 * 7" >"$1"\n' >editor.sh
EDITOR='sh editor.sh' run '1\n:edit\n' -i && expect ':edit runs what the editor leaves' 0 '1
6 * 7
42'
run '1;\nnil\n1, nil, 3\n\n   \n_\n' -i && is 'nil, several values, empty lines' "$status" 0
has 'several values' out "1${tab}nil${tab}3"
run 'mt.ones(2)\nmt.ones(2):sum()\n' -i &&
  has 'mt is there and tensors are shown' out '[(2) float32 cpu]'
run 'local y = 3\nmt.zeros(2):view(7)\nmt.ones(3):sum():item()\n' -i &&
  has 'an error of mtorch is survived' out 3
has 'and printed' err 'view: (2) has 2 elements'
run '{1, {2, x = "y"}, n = mt.ones(2)}\nt = {} t.t = t t.f = 1\nt\n{}, 1, "s"\nmt.ones(2, 3).shape\n' -i &&
  expect 'tables are shown by their contents' 0 "{1, {2, x = \"y\"}, n = tensor (2) float32}
{f = 1, t = {..}}
{}${tab}1${tab}s
(2, 3)"
run 't = {} for i = 1, 1e5 do t[i] = {t, ("x"):rep(1e4), 1, 2, 3, {4, 5}} end t.deep = t\nt\n' -i &&
  [ "$(wc -c <out)" -lt 9000 ] && ok 'in brief' || not_ok 'in brief' "$(wc -c <out) bytes"
modules=$("$program" -e "print(table.concat(require('mtorch.help.modules').names, ' '))")
run 'optim.SGD({nn.Parameter(mt.ones(2))}, {lr = 0.5})\nmt\nsetmetatable({1}, {})\nnn.Linear(1, 1)\n' -i &&
  expect 'tables with a metatable are described' 0 "SGD(1 tensor, lr=0.5, momentum=0, dampening=0, weight_decay=0)
mt has the modules $modules and the functions that mt.help() lists
{1}
Linear(1 -> 1)  2 parameters"
run 'mt.optim\n' -i && has 'a module is shown by its names' out 'mt.optim has Ad'
for words in 'help relu' 'help("relu")' "help 'relu'"; do
  run "$words\n" -i && has "$words at the prompt" out 'relu(x'
done
run 'help = 3\nhelp + 1\n' -i && expect "a script's own help" 0 4
for word in quit exit 'quit()' ' exit '; do run "1\n$word\n2\n" -i && expect "$word ends the prompt" 0 1; done
run 'quit = 5\nquit\n2\n' -i && expect 'unless it is a variable' 0 '5
2'
run 'help\nhelp()\n' -i && has 'help says where help is' out 'help(mt.matmul)'
complete() { run "table.concat(require('mtorch.help.prompt').complete('$1', 1), ' ')\n" -i -e \
  'x, l = mt.ones(2), nn.Linear(1, 1) o = optim.SGD(l:parameters())' && expect "$1 completes" 0 "$2"; }
complete mt.nn.Li mt.nn.Linear
complete x:matm x:matmul
complete x.sha x.shape
complete l.wei l.weight
complete l:state l:state_dict
complete o:zero o:zero_grad
complete string.gs string.gsub
complete coro coroutine
complete nope.x ''
complete x.y.z ''
run 'x\n' -i -e 'x = 11' && expect '-i after -e' 0 11
printf 'from_script = 12\n' >pre.lua
run 'from_script\n' -i pre.lua && expect '-i after a script' 0 12
run 'os.exit(5)\n' -i && is 'os.exit in the prompt' "$status" 5
run 'while true do\n' -i && is 'unfinished input at the end' "$status" 0

# ---- output that is not a terminal ----
cat >prints.lua <<'EOF'
local mt = require 'mtorch'
print(mt.rand(3, 3), mt.zeros(2):bool(), mt.zeros(50, 50))
io.stderr:write('to stderr\n')
local ok, progress = pcall(function() return mt.progress end)
if ok then for _ in progress(3) do end end
error('with a traceback')
EOF
run '' prints.lua
run2=$(cat out err >both && LC_ALL=C tr -cd '\015\033' <both | wc -c | tr -d ' ')
is 'a pipe gets no carriage returns and no escapes' "$run2" 0
run 'mt.ones(2)\nerror("x")\n' -i
is 'nor from the prompt' "$(cat out err | LC_ALL=C tr -cd '\015\033' | wc -c | tr -d ' ')" 0
lacks 'the prompt shows no prompt to a pipe' out '> '
unset MTORCH_ISA # the nightly run sets it
run '' doctor && is 'doctor' "$status" 0
is 'doctor to a pipe' "$(cat out err | LC_ALL=C tr -cd '\015\033' | wc -c | tr -d ' ')" 0
is 'doctor names the instruction set' "$(grep -c '^instructions  *ok   \(avx\|neon\)' out)" 1
is "doctor names LuaJIT's branch" "$(grep -c '^lua .* LuaJIT 2.*branch' out)" 1
if grep -q '^flags.* avx512_vbmi2' /proc/cpuinfo; then best=avx512; else best=avx2; fi
if [ "$(uname -m)" = aarch64 ]; then best=neon; fi
for isa in base avx2 $best; do
  MTORCH_ISA=$isa run '' doctor
  grep -q "MTORCH_ISA=$isa is not in this build" err && continue # the dev preset does not build all
  has "MTORCH_ISA=$isa" out "instructions     ok   $isa "
done
run '' doctor && has "the best instruction set is chosen: $best" out "instructions     ok   $best "

# ---- a locale with a decimal comma ----
printf 'LC_NUMERIC\ndecimal_point ","\nthousands_sep "."\ngrouping 3\nEND LC_NUMERIC\n' >comma.txt
localedef -c -i ./comma.txt -f ANSI_X3.4-1968 ./comma >made 2>&1 # it warns of categories that are missing
if [ -d comma ]; then
  cat >locale.lua <<'EOF'
assert(os.setlocale 'comma')
local mt = require 'mtorch'
local k = mt.kernel(function(out) out[grid(1)] = 1.5 end)
local out = mt.zeros(1)
k[{1, 1}](out)
mt.data.save_csv('comma.csv', {a = mt.tensor({1.5e-320}, {dtype = 'float64'}), names = {'a'}})
print(out:item(), mt.data.csv 'comma.csv'.a:item() == 1.5e-320, mt.nn.Dropout().p, mt.nn.BatchNorm1d(1).momentum)
EOF
  LOCPATH=$PWD run '' locale.lua && expect 'the locale does not change how numbers are read' 0 \
    "1.5${tab}true${tab}0.5${tab}0.1"
fi

# ---- MTORCH_LOG ----
calls='local x = mt.ones(2, 3, {requires_grad = true}) x:t():exp():sum(1):long() x:exp():sum():backward()'
MTORCH_LOG=verbs run '' -e "$calls print(1)"
is 'a log does not change the output' "$status:$out" 0:1
for line in 'map exp float32 (3 x 2)' 'map exp gradient float32 (6)' 'reduce sum float32 (2 x 3)' \
  'copy float32 to int64 (2)'; do
  if grep -q "^cpu $line [0-9.]* us\$" err; then ok "MTORCH_LOG=verbs: $line"; else not_ok "$line" "$err"; fi
done
is 'nothing else is in the log' "$(grep -cv '^cpu [a-z].* [0-9.]* us$' err)" 0
MTORCH_LOG=verbs run '' -e 'mt.profile(function() mt.ones(3):exp() end)  mt.ones(3):cos()'
has 'a recording under the log' out 'cpu: map exp'
has 'and the log after it' err 'cpu map cos float32 (3)'
MTORCH_LOG=words run '' -e 'print(1)'
is 'an unknown log' "$status:$out:$err" \
  "0:1:mtorch: MTORCH_LOG=words is ignored; the only log is 'verbs'"
run '' -e 'mt.ones(2):exp()' && is 'no log without MTORCH_LOG' "$err" ''

run '' -e 'local x = mt.ones(2) + 1  collectgarbage() collectgarbage() print(collectgarbage "count" < 95)'
is 'unused objects are not created, because every collector cycle would visit them' "$out" true

# ---- what ran beside this ----
wait
is 'mtorch watch takes over a changed function' "$(cat watching/out)" "101${tab}true"
has 'and says so' watching/err 'mtorch: watched.lua: took over value'
has 'after it has refused a wrong one' watching/err \
  "watched.lua: line 5: unexpected symbol near '*'; the old functions stay"
if command -v script >/dev/null; then
  has 'Tab completes at a terminal' tab/out 'Linear(1 -> 1)'
  is 'Up gives a block, as one line' \
    "$(grep -c '^42' block/out):$(grep -c 'for i = 1, 2 do print(i [*] 21) end' block/out)" 2:1
  has 'options are completed' block/out 'Conv2d(1 -> 2, kernel 3)'
  has 'fields in a block' block/out '(2)'
  is 'and files' "$(grep -c '^4.$' block/out)" 1
fi

summary
