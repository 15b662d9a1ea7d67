-- topics.lua -- the texts of mt.help about topics other than functions, and the equivalents of PyTorch's names
local topics = {}

--- title -> text
topics.text = {
  extend = [[
Libraries on top of mtorch use mt.extend, as the plots, reports, ONNX and distributions in bindings/lua/extras/ do.
  extend.fail('lib: %s is too long', x)    an error at the line of the user, outside the library whose chunks begin
                                           with @mtorch/; extend.describe(x) is x in words
  extend.check(#x < 9, 'lib: %s is too long', x)   the same error, unless the condition is true
  f = extend.declare('f(x: tensor, n: int >= 1 = 2)', 'What it does.', function(x, n) .. end)
                                           arguments are checked, may be given by name, and mt.help shows them
  extend.object.class{called = 'log'}, extend.object.new(class, fields)    objects whose unknown fields are errors
  extend.strict(table, 'lib')              a table whose unknown fields are errors that name the nearest
  extend.recorder.record(f, inputs)        one call of f as a list of operations, for exporters
extend.util has plain(x), sorted_keys(t), number_text(x), write_file(op, path, text) and other small functions.]],
  indexing = [[
Indexing. Positions count from 1; -1 is the last; 0 is an error.
  x[2]                 one position of dimension 1        x[{2, 3}]     one element (0-d tensor)
  x[{{}, 3}]           a column: {} is all                x[{{2, 5}}]   rows 2 to 5, both included
  x[{{1, 9, 2}}]       every second row                   x[{{2}}]      row 2, the dimension stays
  x[{{-3, -1}}]        the last three rows                x[{mt.ellipsis, 1}]   ... , 1
  x[{{}, mt.newaxis}]  a new dimension of size 1          x['1:3, :, -1']       the same as text
  x['None']  x['-1']   one word of such text              x[1][2]               x[{1, 2}], in two steps
  x[mask]              elements where a bool tensor is true
  x[index]             rows that an integer tensor lists  x[{{}, index}]        columns
  x[{2, 3}] = 7        any of these on the left of =; the value may be a number or a tensor
  x:at(2, 3)           a Lua number (fast);  x:item() of a tensor of one element
A range past the end is an error: the last batch is x[{{i, math.min(i + 63, #x)}}], or use x:split(64).
Ranges of numbers and slices are views: writing into them writes into x. Index tensors and masks copy.
x:select(dim, i), x:narrow(dim, first, length), x:index_select(dim, index), x:gather(dim, index).]],
  shapes = [[
Shapes. x.shape prints as (5, 784), compares with ==, and its entries are numbers: x.shape[1], x.shape[-1].
  mt.zeros(2, 3)   mt.zeros({2, 3}, {dtype='float64'})   mt.full({2, 3}, 7)   {} is a 0-d tensor
  local rows, columns = unpack(x.shape)     #x is the size of dimension 1     x:dim()  x:numel()
Dimensions count from 1; -1 is the last. x:view(4, -1), x:reshape(..), x:t(), x:permute(2, 1, 3),
x:unsqueeze(1), x:expand(3, -1). Sizes of 1 are repeated where two tensors meet (broadcasting).]],
  dtypes = [[
Dtypes: 'float32' 'float64' 'int64' 'int32' 'uint8' 'bool'; 'float16' 'bfloat16', which are calculated with in float32
and rounded after each operation (mt.autocast), as are 'float8_e4m3fn' 'float8_e5m2'; 'int8' 'int16', which are
calculated with in int32. Numbers make float32 whatever their values: mt.tensor({1, 2}) is float32,
mt.tensor({1, 2}, {dtype='int64'}) is not; of booleans bool. randint, randperm, range with whole ends and results that
are positions are int64. x:float() x:double() x:long() x:int() x:short() x:byte() x:char() x:bool() x:half()
x:bfloat16() x:to('float64'). Between tensors as in PyTorch; a Lua number adopts the tensor's dtype, a fraction makes
an integer tensor float. mt.set_default_dtype('float64').]],
  options = [[
Arguments come in PyTorch's order; optional ones by position (nil is the default) or by name in one
last table: x:sum(2, true) is x:sum(2, {keepdim=true}) is x:sum{dim=2, keepdim=true}.
A table alone, f{3, 4, name=v}: what has no name is the list where the first argument is one, as in
mt.cat{a, b, dim=2}, else the arguments, as in nn.Linear{784, 10, bias=false}.
In a signature, name=value is optional, [name] takes a list, [shape..] numbers or a list.
{out=}, by name only: x:add(y, {out=t}) writes the result into t, makes no new memory and returns t. t has the
result's shape and a dtype that can hold it, and may be an input; nothing there may require a gradient.]],
  comparisons = [[
Comparisons are methods, x:lt(y) le gt ge eq ne, and give bool tensors: Lua's < and == can only give
true or false. a == b of two tensors asks whether they are the same tensor, as `is` does in Python: it is
false for two tensors of equal values (mt.equal(a, b), mt.allclose(a, b)). A tensor is always true in `if`: write
x:item(), x:any(), x:all(). The mean of a condition: x:lt(0.5):float():mean().]],
  gradients = [[
Gradients. w = mt.randn(3):requires_grad_(); loss = (w * w):sum(); loss:backward(); print(w.grad)
Gradients add up in w.grad: w.grad = nil or opt:zero_grad() before the next step.
mt.no_grad(function() w:sub_(w.grad * 0.1) end) changes a leaf. mt.grad(out, inputs) gives gradients
without touching .grad; {create_graph=true} makes them differentiable. mt.jacobian, mt.hessian, mt.vjp,
mt.jvp; x:register_hook(fn); mt.Function{forward=, backward=}; mt.gradcheck(fn, inputs) in float64.]],
  kernels = [[
Grid kernels. k = mt.kernel(function(a, b, c) ... end) runs the function once for each thread of a grid:
  local add = mt.kernel(function(x, y, out)
    local i = grid(1)                                 -- local i, j = grid(2): i along x; from 1
    if i <= #out then out[i] = x[i] + y[i] end        -- threads beyond the end do nothing
  end)
  add[{mt.cdiv(n, 256), 256}](x, y, out)              -- {blocks, threads}, each a number or {x, y, z}
  add:over(out)(x, y, out)                            -- a thread for each element
It is compiled from its source: locals, arithmetic, comparisons, and or not, if while repeat, for i = a, b, break,
return, a[i][j], #a, a.shape[d], math.*, bit.*, mt.cdiv, print, calls of other such functions, and of mt's elementwise
functions of numbers: mt.erf(x), mt.clamp(x, 0, 1), mt.where(c, x, y), mt.bitwise_and(m, n).
  grid(n)  thread_idx  block_idx  block_dim  grid_dim   positions and sizes, with .x .y .z
  shared(n[, m][, dtype])  barrier()                    memory of a block; all its threads wait
  private(n[, m][, dtype])                              an array of each thread, such as float buffer[8] in CUDA C
  atomic_add(t, i, .., v)                               t[i] = t[i] + v, gives the old value
  atomic_min atomic_max atomic_exchange(t, i, .., v)    t[i] = math.min(t[i], v), .., v; also give the old value
  atomic_cas(t, i, .., expected, v)                     t[i] = v if it was `expected`
  warp_sum(v) warp_max(v) warp_min(v) shuffle_down(v, n) shuffle_xor(v, mask) lane()   in a warp of 32 threads
  constant(t)                                           a small tensor that is only read
Whole literals, counters, shapes and captured integers are 64-bit integers, but `local s = 1.0` is a float; / and ^ give
floats, rounding (math.floor, mt.round) integers, and math.floor(a / b) of integers is exact. bit.* has 32 bits,
as in LuaJIT, mt.bitwise_and and so on 64. Floats are the widest float dtype of the tensors, else the default.
Captured numbers are read again at each launch. {check=true} reports accesses out of bounds, races, divergent barriers
and uninitialised arrays; mt.explain(k:over(x), x, ..) says how it ran. An argument that requires a gradient is
an error outside of mt.no_grad: wrap the kernel in mt.Function. It runs on the device of its tensors: on a GPU as CUDA
C, k:cuda_source() after a launch; there float atomics are added in any order, and check=true waits and reports
accesses out of bounds. Kernels in CUDA C: mt.help('cuda_kernels').]],
  operators = [[
+ - * / ^ % and unary minus are elementwise with broadcasting, a number on either side. There is no @:
x:matmul(y). No += : x:add_(y) in place, or x = x + y. No `not`, `and`, `or` on tensors:
x:logical_not(), x:logical_and(y), x:logical_or(y).]],
  plots = [[
Plots. mt.plot.line scatter fill_between bar hist heatmap contour image images panels graph; mt.help('plot.line') ..
Without a path the figure is drawn in the terminal; path='a.svg' or 'a.png' writes a file and returns the path. PNG
needs librsvg (librsvg2-2), drawings of graphs need Graphviz (graphviz); SVG of all other figures needs nothing.
  mt.plot.line{loss, title='loss', logy=true}                       one list over 1..n
  mt.plot.line{epochs, train, valid, labels={'train', 'valid'}}     several over x
  mt.plot.line{train, valid, labels={'train', 'valid'}}             a label for each list: none is x
  mt.plot.line{ {x=e, y=mean, low=lo, high=hi, label='5 seeds'}, {x=e, y=one, label='best', kind='scatter'} }
  mt.plot.line{train, valid, labels={'train', 'valid'}, smooth=0.9, color={'navy', 'orange'}, style={'-', '--'}}
  mt.plot.line{x, y, yerr=e, style='o-', xlim={0, 10}, ylim={0, 1}, legend='inside top right'}
  mt.plot.scatter{x, y, class=labels, aspect='equal', {x=a, y=b, kind='line', label='fit'}}
  mt.plot.hist{before, after, labels={'before', 'after'}}           mt.plot.bar{{y=a, label='a'}, {y=b, label='b'}}
  mt.plot.contour{function(x, y) return .. end, points={x=, y=, class=}}   mt.plot.heatmap{m, cmap='magma'}
  mt.plot.images{digits, labels=names}                              [n x h x w] or a list of images
  mt.plot.panels{ {kind='line', losses}, {kind='heatmap', m}, cols=2, path='run.svg'}
Lists and tensors both do. NaN and infinity are gaps. Sizes: width=, height=, pixels (in the terminal characters).]],
  reports = [[
Reports. mt.report{path='run.html', ..} writes one HTML page; every part may be left out:
  title='text', notes='paragraphs, separated by empty lines'
  config={lr=0.1, model={hidden=100}}             rows; nested names become model.hidden
  curves={loss={3, 2, 1}}                         a chart with that title
  curves={loss={train=list, valid=list}}          several series in one chart
  curves={ {epochs, losses, title='Loss', xlabel='epoch'} }   arguments of plot.line, in this order
  runs={a={loss=list}, b={loss=list}}             a chart for each curve, a series for each run
  timing=list                                     seconds of each step: median, mean, 90th percentile, a graph
  timing={epoch=list, total=12.5}                 a row for each name
  surface={function(x, y) return .. end, points={..}}         arguments of plot.contour
  figures={ {'bar', {values, labels=names}} }     any figure of mt.plot
  table={ {'name', 'value'}, {'a', 1} }           rows, the first is the head; or records {name='a', value=1}
  images=x, images={x, title=, labels=}           as plot.images takes them; confusion={matrix=m, classes=names}
  filters=net  network=net  graph={loss, params=net}
A page that grows: report = mt.Report(flags) of mt.args{report='', live=false, ..}; without --report and --live all of
it does nothing (report.on is false).
  report:scalar('loss/train', loss[, step])  report:scalars({accuracy=a}, epoch)  report:row{epoch=1, loss=l}
  report:image(name, x)  report:plot('hist', {x})  report:confusion(m, names)  report:filters(net)  report:network(net)
  report:graph(loss, net)  report:timing('epoch', seconds)  report:run('seed 2'):scalar(..)  report:finish()
--live writes the page each second (report.html without --report): a browser that shows it loads it again.]],
  flags = [[
Flags of a script. o = mt.args{hidden=100, rate=0.05, deep=false, dataset={'split', 'xor'}} reads --hidden 50 --deep
--dataset=xor; o.hidden is then 50. Types come from the defaults, a list is a choice, dry_run is --dry-run. An entry
says more, and --help shows entries in their order, after the comment at the head of the script:
  o = mt.args{
    {'data', required=true, help='folder of the images', metavar='DIR'},      o.data
    {'hidden', 100, 'units of each layer', type='int', min=1},                name, default, help; type, min, max
    {'model', {'small', 'large'}, 'the network'},                             a choice; also choices={..}, default=
    {'epochs', help='passes; default: 10', type='int', min=1},                nil if it is not given
    {'shuffle', true, 'shuffle the rows'},                                    --no-shuffle
    {'plot', type='output', endings={'svg', 'png'}, help='the curve'},        a file to write: its folder must be there
  }
type is 'string', 'number', 'int', 'flag' or 'output'. --device --threads --seed take effect at once; o.device is a
name.]],
  progress = [[
Progress. A line on the terminal with a bar, values, the time left and the time of a step; nothing in a log.
  for i in mt.progress(n) do .. end                         for x, y in mt.progress(loader, {label='train'}) do .. end
  local bar = mt.progress(n, {label='train', every=100})    every: in a log a plain line each so many steps
  mt.progress(n, {unit='images', per_step=64})              4310 images/s instead of 14.8 ms/step
  mt.progress(nil, {label='stream'})                        the number of steps is unknown
  bar:update(i, {loss=l})     i steps are done (nil: one more); the values are at the end of the line
  bar:set{loss=l, accuracy=a} the values, where a loop over bar counts the steps
  bar:print('epoch 3 ..')     a permanent line above the bar
  bar:finish()                ends it early; the last step does so by itself
A bar that is created while another is open is below it, and leaves no line: epochs outside, batches inside.]],
  training = [[
A training step:
  local net = nn.Sequential(nn.Linear(2, 100), nn.ReLU(), nn.Linear(100, 1))
  local opt = optim.Adam(net:parameters(), {lr=0.01})
  opt:zero_grad();  local loss = mt.mse_loss(net(x), y);  loss:backward();  opt:step()
  print(loss:item())
Gradients clipped, between backward and step: nn.clip_grad_norm_(net:parameters(), 1).
net:train() and net:eval() switch dropout and batch normalisation; net:freeze('^encoder%.') freezes parameters;
nn.init.kaiming_normal_(w) initializes again; print(net) and net:summary{64, 2} describe it.
Weights of 16 bits: net:bfloat16(), and optim.Adam(net:parameters(), {lr=1e-4, master_weights=true}), whose steps change
float32 copies of them: a step that 16 bits would round away is not lost. opt.param_groups[1].state[1].master is one.
Rates: sched = optim.lr.CosineAnnealingLR(opt, {T_max=100}), then sched:step() after opt:step(); mt.help('optim.lr').
Metrics over batches: acc = mt.metrics.Accuracy(), acc:update(logits, labels), acc:compute(); mt.help('metrics').
Labels and token ids count from 1: classes 1..n for mt.cross_entropy(logits, labels).
nn.class('Net') with __init and forward makes your own module.]],
  data = [[
Data. A set has set:size() and set:get(i); a loader gives batches in an order that depends only on its seed.
  mt.data.simple diag split xor circle spiral(n)      points of the unit square: set.x [n x 2], set.y [n], 0 or 1
  mt.data.csv json npy npz idx safetensors image wav text (path), also .gz; mnist, fashion_mnist, cifar10; folder(root)
  TensorDataset(x, y) Subset ConcatDataset random_split(set, {0.8, 0.2})      sets of tensors and of sets
  DataLoader(set, {batch_size=64, shuffle=true, workers=2, seed=1})           for x, y in loader:iter() do .. end
  mt.data.transforms: Compose Normalize RandomCrop RandomHorizontalFlip Resize ..     torchvision's names
Labels count from 1. mt.help('data') lists all names, mt.help('DataLoader') one.]],
  debugging = [[
Finding faults.
  mt.set_detect_anomaly(true)         the first operation, forward or backward, whose result is NaN or infinite is an
                                      error with its line; mt.detect_anomaly(fn, ..) does so during fn
  mt.debug()                          stops at this line: a prompt with the variables of the function, and the commands
                                      locals, where, up, down, continue, quit
  mt.reload 'name'                    requires a module again after a change of its file
  mtorch watch train.lua              runs a script, and takes over changes of its functions whenever it is saved
  MTORCH_CUDA_SYNC=1                  an error of a GPU names its operation; MTORCH_LOG=verbs prints calls of kernels
At the prompt ?name is help, :time CODE and :profile CODE measure, :edit opens the last input in an editor, and _ is the
last result. mt.profile(fn) says where the time goes.]],
  saving = [[
Saving. Every file is written atomically.
  mt.save(path, {net = net:state_dict(), epoch = 3})      mt.load(path)       safetensors; PyTorch's .pt loads too
  net:load_state_dict(mt.load(path).net)
  mt.checkpoint.save(path, {model=net, optim=opt, sched=sched, loader=loader, step=n})
  mt.checkpoint.resume(path, {model=net, optim=opt})      fills them, random numbers too, and returns plain values;
                                                          nil if there is no file yet
  mt.onnx.export(net, x, 'net.onnx')                      for other programs]],
  watching = [[
Watching a run.
  mt.progress(n), mt.progress(loader)     a bar with values, rate and time left: mt.help('progress')
  mt.plot.line{losses}                    a graph in the terminal, or a file with path=: mt.help('plots')
  mt.plot.graph(loss, {params=net})       the autograd graph of a loss, before its backward
  mt.plot.images(x)                       images in the terminal, or a file
  mt.Report(flags)                        one page, --report run.html; --live: it updates itself: mt.help('reports')
  mt.SummaryWriter('runs/a')              for TensorBoard: add_scalar add_histogram add_image add_text ..
  mt.JsonLines('run.jsonl')               log:write{epoch=1, loss=l}: a JSON object for each line
  mt.compare_runs{'a.jsonl', 'b.jsonl'}   logs or reports side by side; in a shell: mtorch compare runs/*.jsonl
  mt.metrics, mt.profile(fn), mt.timeit(fn)]],
  cuda_kernels = [=[
Kernels in CUDA C. k = mt.cuda.kernel{source=[[ .. ]], name='scale', rank={x=1}, defines={TILE=16}}
  k[{blocks, threads}](out, x, 2.5, n)       k[{ {gx, gy}, {bx, by} }](..)       k[{blocks, threads, bytes}](..)
The third number is shared memory beside what the kernel declares. mt.cdiv(n, threads) blocks cover n elements.
A pointer takes a contiguous tensor of its type on the GPU: float* float32, double* float64, int* int32, long long*
int64, unsigned char* uint8, char* int8, short* int16, bool* bool, __half* float16; float4* whole groups of 4. Write
const where a kernel only reads: other tensors count as changed in place. `const float (*f)[3]` wants a matrix of 3
columns; rank={f=2} any matrix. A tensor with its shape is mt::tensor2<float> m (tensor1 .. tensor4, of const T where a
kernel only reads): any strides, m[row][col] or m(row, col) from 0, m.size(0). Numbers are whole and in range for
integers, true or false for bool. name='scale<float>' is an instance.
Accesses out of bounds and races are found by `compute-sanitizer mtorch script.lua`, of the CUDA toolkit. Includes of a
host program (stdio.h, cstdint, cuda_runtime.h, torch/extension.h) are accepted; its functions, TORCH_CHECK and the like
are left out.
k:set_constant('F', x) fills `__constant__ float F[..]`. What printf writes is shown by mt.cuda.synchronize().
k.signature k.parameters k.cached k.milliseconds k.registers k.shared k.max_threads k.log. Compiled code is kept in
$MTORCH_CACHE, $XDG_CACHE_HOME/mtorch or ~/.cache/mtorch, at most 256 MiB; MTORCH_CACHE=off keeps nothing.
Without a GPU kernels compile (for compute capability 9.0) and arguments are checked; a launch says what is missing.]=],
  random = [[
mt.manual_seed(1) restarts the stream, the same on every device. mt.rand mt.randn mt.randint(first,
last, shape) mt.randperm(n) mt.bernoulli mt.multinomial mt.normal; x:normal_() x:uniform_().
mt.get_rng_state, mt.set_rng_state. These are not the numbers of torch.manual_seed(1). PyTorch's own come from
g = mt.Generator('mt19937', 1): mt.randn(784, 10, {generator=g}) begins -1.5256 -0.7502 -0.6540, as there.]],
}

--- title -> a script that runs; files are written to the current folder
topics.sample = {
  training = [[
local net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
local opt = optim.Adam(net:parameters(), {lr = 0.02})
local sched = optim.lr.StepLR(opt, {step_size = 50, gamma = 0.5})
local set = mt.data.xor(100)
for _ = 1, 100 do
  local loss = mt.binary_cross_entropy_with_logits(net(set.x):squeeze(2), set.y)
  opt:zero_grad()
  loss:backward()
  opt:step()
  sched:step()
end
net:eval()
print(mt.no_grad(net, set.x):squeeze(2):gt(0):float():eq(set.y):float():mean():item())]],
  data = [[
local points = mt.data.split(100)
local train, test = mt.data.random_split(mt.data.TensorDataset(points.x, points.y), {0.8, 0.2})
local loader = mt.data.DataLoader(train, {batch_size = 16, shuffle = true, seed = 1})
for x, y in loader:iter() do assert(#x == #y) end
print(train:size(), test:size(), loader:size())]],
  saving = [[
local net = nn.Linear(3, 2)
local opt = optim.Adam(net:parameters())
mt.save('net.safetensors', {net = net:state_dict(), epoch = 3})
print(mt.load('net.safetensors').epoch)
for step = (mt.checkpoint.resume('run.ckpt', {model = net, optim = opt}) or {step = 0}).step + 1, 5 do
  opt:zero_grad()
  net(mt.ones(1, 3)):sum():backward()
  opt:step()
  mt.checkpoint.save('run.ckpt', {model = net, optim = opt, step = step})
end
print(mt.checkpoint.resume('run.ckpt', {model = net, optim = opt}).step)]],
  watching = [[
local report = mt.Report{path = 'run.html', title = 'A run', config = {lr = 0.1}}
local writer, log = mt.SummaryWriter('runs/a'), mt.JsonLines('run.jsonl')
local bar = mt.progress(50, {label = 'train'})
local w = mt.randn(3):requires_grad_()
for step in bar do
  local loss = (w * w):sum()
  report:graph(loss, {w = w})
  w.grad = nil
  loss:backward()
  mt.no_grad(function() w:sub_(w.grad * 0.1) end)
  report:scalar('loss', loss, step)
  writer:add_scalar('loss', loss, step)
  log:write{step = step, loss = loss}
  bar:set{loss = loss}
end
writer:close()
print(report:finish())]],
}

--- a name of PyTorch, NumPy or Python -> its equivalent here
topics.renamed = {
  shape = "a field: x.shape, x.shape[1], x:size(1); see mt.help('shapes')",
  dtype = "a field, a string: x.dtype; see mt.help('dtypes')", ndim = 'a field: x.ndim, or x:dim()',
  grad = "a field: x.grad, nil before x:backward(); see mt.help('gradients')",
  requires_grad = 'a field: x.requires_grad; x:requires_grad_() sets it, or {requires_grad=true}',
  is_leaf = 'a field: x.is_leaf', grad_fn = "print(x) ends in 'from <operation>'; x.requires_grad, x.is_leaf",
  T = 'a field: x.T, as x:t()', mT = 'a field: x.mT, as x:transpose(-2, -1)',
  argparse = "mt.args{..}; see mt.help('flags')",
  utils = 'their own modules: mt.nn (clip_grad_norm_, pad_sequence), mt.data (DataLoader), mt.recompute',
  ['nn.utils'] = 'mt.nn itself: nn.clip_grad_norm_, nn.weight_norm, nn.pad_sequence, nn.pack_padded_sequence, ..',
  ['data.utils'] = 'mt.data itself: data.DataLoader, data.TensorDataset, ..',
  F = 'functions of mt: mt.relu, mt.softmax', is_cuda = "x.device ~= 'cpu'",
  vision = 'mt.data (mnist, folder, transforms)', ['plot.plot'] = 'mt.plot.line', isinstance = 'nn.is(m, nn.Linear)',
  DistributedDataParallel = 'mt.dist.parallel(net)', FullyShardedDataParallel = 'mt.dist.shard(net)',
  ZeroRedundancyOptimizer = 'mt.optim.Sharded(opt)', torchrun = 'mtorch --processes 4 script.lua',
  ['optim.swa_utils'] = 'mt.optim.swa', distributed = 'mt.dist', jit = 'mt.compile(step), mt.fuse(f)',
  amp = 'mt.autocast(fn), mt.GradScaler()', tqdm = 'mt.progress(n) or mt.progress(loader)',
  ['metrics.R2Score'] = 'mt.metrics.R2', ['metrics.MeanSquaredError'] = 'mt.metrics.MSE',
  ['metrics.MeanAbsoluteError'] = 'mt.metrics.MAE', LabelEncoder = 'mt.data.factorize(values)',
  ['data.ImageFolder'] = 'mt.data.folder(root)', ['data.MNIST'] = 'mt.data.mnist{root=, download=}',
  ['data.FashionMNIST'] = 'mt.data.fashion_mnist{root=, download=}',
  ['transforms.ToPILImage'] = 'not needed: images are tensors, mt.data.save_image(path, x) writes one',
  ['data.transforms.ToPILImage'] = 'not needed: images are tensors, mt.data.save_image(path, x) writes one',
  ['data.transforms.PILToTensor'] = 'not needed: mt.data.image(path) and mt.data.folder give tensors',
  ['data.transforms.v2'] = 'mt.data.transforms itself',
  ['DataLoader.num_workers'] = 'workers', ['DataLoader.collate_fn'] = 'collate',
  ['DataLoader.prefetch_factor'] = 'prefetch',
  ['DataLoader.generator'] = 'seed, a number, or a sampler with a generator',
  ['DataLoader.pin_memory'] = 'x:pin_memory() of a batch, before x:cuda()',
  ['DataLoader.persistent_workers'] = 'not needed: workers live as long as the loader',
  ['DataLoader.worker_init_fn'] = 'not needed: random numbers of an item depend on seed, epoch and item alone',
  ['zero_grad.set_to_none'] = 'not needed: gradients are nil after it',
  ['optimizer.lr'] = 'in each group: opt.param_groups[1].lr',
  ['optimizer.state'] = 'in each group: opt.param_groups[1].state',
  ['optimizer.set_lr'] = 'opt.param_groups[1].lr = 0.01', ['optimizer.learning_rate'] = 'lr',
  ['scheduler.get_lr'] = 'sched:get_last_lr()', ['scheduler.print_lr'] = 'print(sched)',
  ['metric.result'] = 'm:compute()', ['metric.forward'] = 'm:update(..), then m:compute()',
  ['scheduler.lr'] = 'sched:get_last_lr(), or opt.param_groups[1].lr',
  enumerate = 'a count of your own, or for i = 1, #set do set:get(i)',
  functional = 'functions of mt: mt.relu, mt.softmax',
  ['module.register_full_backward_hook'] = 'y:register_hook(fn) of what the module returns, p:register_hook(fn) of ' ..
    'a parameter',
  ['module.add'] = 'seq:append(module)', ['module.get'] = 'seq[i]', ['module.size'] = '#seq',
  ['module.evaluate'] = 'net:eval()', ['module.backward'] = 'loss:backward(), of a tensor',
  ['module.getParameters'] = 'net:parameters(), a list; nn.parameters_to_vector(list)',
  ['module.zeroGradParameters'] = 'net:zero_grad()',
  ['module.updateParameters'] = 'an optimizer of mt.optim, opt:step()',
  ['nn.LookupTable'] = 'nn.Embedding', ['nn.Dense'] = 'nn.Linear',
  ['nn.View'] = 'nn.Flatten, nn.Unflatten, or x:view(..) in forward', ['nn.Reshape'] = 'nn.Unflatten, or x:reshape(..)',
  ['module.compile'] = 'mt.compile(step)', ['module.type'] = "net:to('float64')",
  ['module.extra_repr'] = 'extra: function Net:extra() return text end', ['module.register_module'] = 'add_module',
  ['writer.add_graph'] = 'mt.report{network=net}, or mt.onnx.export(net, x, path) for netron.app',
  ['writer.add_figure'] = 'mt.plot.line{.., path=file}, then w:add_image(tag, mt.data.image(file))',
  ['writer.add_hparams'] = 'w:add_text(tag, text)', ['writer.add_images'] = 'w:add_image of each',
  remove_weight_norm = "mt.nn.remove_parametrizations(net, 'weight')",
  remove_spectral_norm = "mt.nn.remove_parametrizations(net, 'weight')", upsample = 'mt.interpolate(x, ..)',
  upsample_bilinear = "mt.interpolate(x, {scale_factor=, mode='bilinear', align_corners=true})",
  upsample_nearest = 'mt.interpolate(x, {scale_factor=})',
  get_total_norm = 'what nn.clip_grad_norm_(parameters, math.huge) returns',
  ['module.set_submodule'] = 'net.name = module', ['module.share_memory'] = 'not needed: there is one process',
  ['set.len'] = 'set:size()', ['set.length'] = 'set:size()', ['loader.len'] = 'loader:size()',
  ['loader.num_workers'] = 'loader.workers', ['loader.batchsize'] = 'batch_size',
  float32 = "a string: 'float32'", float64 = "a string: 'float64'", int64 = "a string: 'int64'",
  int32 = "a string: 'int32'", uint8 = "a string: 'uint8'", float16 = "a string: 'float16'",
  inf = 'math.huge', nan = '0 / 0', pi = 'math.pi', ['nn.Swish'] = 'nn.SiLU',
  data_ptr = 'x:data(), a typed FFI pointer', nbytes = 'x:numel() * x:element_size()',
  type = "x.dtype, and x:to('float64') converts", astype = "x:to('float64')", append = 'mt.cat{x, y}',
  values = 'the first result: local values, indices = x:max(dim)', fill_diagonal_ = 'x:diagonal():fill_(value)',
  indices = 'the second result: local values, indices = x:max(dim)',
  length = '#x, the size of dimension 1', toarray = 'x:tolist()', tonumber = 'x:item()',
  ['onnx.load'] = 'mt.onnx.export alone: files are written, not run',
  ['checkpoint.load'] = 'mt.checkpoint.resume(path, objects)',
  ['checkpoint.restore'] = 'mt.checkpoint.resume(path, objects)',
  backends = 'mt.set_num_threads, mt.set_flush_denormal',
  ['summary.input_size'] = 'net:summary{64, 1, 28, 28}, the sizes themselves',
  lr_scheduler = "mt.optim.lr, mt.help('optim.lr')",
  autograd = "see mt.help('gradients')", slicing = "see mt.help('indexing')",
  ['in-place'] = "a last underscore: x:add_(y), x:zero_(); see mt.help('operators')",
  print = 'print(x) or tostring(x); mt.set_printoptions. print(net) counts children from 1, state_dict from 0',
  arange = "mt.range(first, last[, step]), which counts to last included; mt.range(1, n)",
  ['repeat'] = "x:tile(2, 3), or x['repeat'](x, 2, 3)", ['@'] = 'x:matmul(y)', __matmul__ = 'x:matmul(y)',
  len = '#x, the size of dimension 1',
  safetensors = 'mt.data.safetensors(path), mt.data.save_safetensors(path, {name = tensor})',
  from_numpy = "mt.frombuffer(string, {dtype=, shape=}), or mt.tensor(table)",
  numpy = 'x:tolist(), or x:data() for a typed FFI pointer',
  ['None'] = 'mt.newaxis inside x[{..}]; nil as an argument', DoubleTensor = "mt.tensor(.., {dtype='float64'})",
  as_tensor = 'mt.tensor', asarray = 'mt.tensor', LongTensor = "mt.tensor(.., {dtype='int64'})",
  Tensor = 'mt.tensor of numbers, mt.zeros of sizes', FloatTensor = 'mt.tensor of numbers, mt.zeros of sizes',
  device = "a string: 'cpu', 'cuda', 'cuda:0'",
  ['nn.functional'] = 'functions of mt: mt.relu, mt.softmax, mt.cross_entropy, ..',
  ['autograd.grad'] = 'mt.grad', ['autograd.Function'] = 'mt.Function',
  ['autograd.functional.jacobian'] = 'mt.jacobian',
  ['autograd.functional.hessian'] = 'mt.hessian', ['autograd.set_detect_anomaly'] = 'mt.set_detect_anomaly(true)',
  inference_mode = 'mt.no_grad(function)', ['utils.checkpoint'] = 'mt.recompute(fn, ..)',
  ['utils.checkpoint.checkpoint'] = 'mt.recompute(fn, ..)', init_process_group = 'mt.dist.init()',
  all_reduce = "mt.dist.all_reduce_(x, {op='sum'})", reduce_scatter = 'mt.dist.reduce_scatter_',
  row_stack = 'mt.vstack', sgn = 'mt.sign(x)', ldexp = 'x * 2 ^ n', poisson = 'mt.distributions.Poisson(rate):sample()',
  cartesian_prod = 'a, b = mt.meshgrid(x, y), then mt.stack({a:flatten(), b:flatten()}, 2)',
  get_rank = 'mt.dist.rank()', get_world_size = 'mt.dist.size()', all_gather_into_tensor = 'mt.dist.all_gather_into_',
  ['testing.assert_close'] = 'mt.test_close(a, b[, eps]) or mt.allclose', set_num_threads = 'mt.set_num_threads',
  ['random.manual_seed'] = "mt.manual_seed; PyTorch's own numbers: mt.Generator('mt19937', seed)",
}

for name, here in pairs(require 'mtorch.help.torch7') do topics.renamed[name] = topics.renamed[name] or here end

--- a name of PyTorch that is not available yet -> advice
local parallel = 'one process works with one device; net:to(\'cuda:0\') chooses it'
local dataset = 'any table with size() and get(i) is a set; mt.data.TensorDataset(x, y) makes one of tensors'
local trapezoid = '(y[{{2, -1}}] + y[{{1, -2}}]):sum() * dx / 2'
topics.absent = {
  Dataset = dataset, IterableDataset = dataset,
  ASGD = 'mt.optim.swa.AveragedModel(net) averages what any optimizer makes', Rprop = 'mt.optim.RMSprop is for batches',
  Muon = 'mt.optim.AdamW or mt.optim.Lion',
  CIFAR10 = 'mt.data.cifar10{root=, download=, train=}',
  CIFAR100 = 'mt.data.folder(root) reads images, one folder for each class',
  vmap = 'write the batched operation; mt.map(f) is a function of numbers',
  hub = "PyTorch's weights load by mt.load(path), scripts/gpt2.lua reads Hugging Face's folders",
  DataParallel = parallel,
  DistributedSampler = 'mt.data.DataLoader(set, {shard={mt.dist.rank(), mt.dist.size()}})',
  Sampler = 'any object with iter(), an iterator of positions, is a sampler, and so is a list of positions',
  StackDataset = dataset, ChainDataset = 'mt.data.ConcatDataset{a, b}',
  Optimizer = 'mt.no_grad(function() p:sub_(p.grad * lr) end) is a step of your own',
  LRScheduler = 'mt.optim.lr.LambdaLR(opt, function(step) .. end), or opt.param_groups[1].lr = ..',
  Adafactor = 'mt.optim.AdamW or mt.optim.Lion',
  LocalResponseNorm = 'mt.nn.BatchNorm2d or mt.nn.GroupNorm', CrossMapLRN2d = 'mt.nn.BatchNorm2d or mt.nn.GroupNorm',
  AdaptiveMaxPool3d = 'x:amax({-3, -2, -1}, true) where the output has size 1; mt.nn.MaxPool3d',
  gumbel_softmax = '((x - (-mt.rand_like(x):log()):log()) / tau):softmax(-1)',
  hfft = "mt.fft.irfft(mt.complex_conj(z), {norm = 'forward'})",
  ihfft = "mt.complex_conj(mt.fft.rfft(x, {norm = 'forward'}))",
  sparse_coo_tensor = 'positions and values as two tensors, and mt.zeros(n):index_add(1, positions, values)',
  segment_reduce = "mt.zeros(n):scatter_reduce(1, segments, x, 'mean', {include_self=false})",
  tensor_split = 'mt.split(x, sizes, dim) or mt.chunk(x, n, dim)', column_stack = 'mt.stack(vectors, 2)',
  ChannelShuffle = 'mt.unflatten(x, 2, {groups, -1}):transpose(2, 3):flatten(2, 3)',
  trapezoid = trapezoid, trapz = trapezoid,
  pdist = 'mt.cdist(x, x), which has each pair twice',
  SWALR = 'mt.optim.lr.LambdaLR(opt, function(step) .. end)',
  TripletMarginWithDistanceLoss = '(d(a, p) - d(a, n) + margin):relu():mean() for any function d of two tensors',
  unpack_sequence = 'padded, lengths = mt.nn.pad_packed_sequence(p); padded[{{1, lengths:at(i)}, i}]',
  unpad_sequence = 'padded[{{1, length}, i}] is sequence i',
  LPPool1d = '(mt.avg_pool1d(x:abs():pow(p), k) * k):pow(1 / p)',
  LPPool2d = '(mt.avg_pool2d(x:abs():pow(p), k) * k ^ 2):pow(1 / p)',
  LPPool3d = '(mt.avg_pool3d(x:abs():pow(p), k) * k ^ 3):pow(1 / p)',
}
for name in ('Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d BatchNorm1d BatchNorm2d ' ..
  'BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d'):gmatch '%S+' do
  topics.absent['Lazy' .. name] = ('mt.nn.%s with its size; mt.nn.Sequential(..):summary{..} of what comes before ' ..
    'says which'):format(name)
end

return topics
