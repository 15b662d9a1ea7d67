-- test_cuda_kernel.lua -- CUDA C from a script: compiling, the cache, checks, launches (emulated: g++ runs them)
local ffi = require 'ffi'
ffi.cdef 'int setenv(const char *name, const char *value, int overwrite); char *mkdtemp(char *);'
local folder = ffi.string(ffi.C.mkdtemp(ffi.new('char[?]', 32, '/tmp/mtorch-kernel-XXXXXX')))
ffi.C.setenv('MTORCH_CACHE', folder, 1) -- before its first use

local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises

--- Runs a program; returns its output, with errors, and whether it succeeded.
local function run(environment, ...)
  local words = {}
  for _, word in ipairs {...} do words[#words + 1] = "'" .. word:gsub("'", "'\\''") .. "'" end
  local command = ('%s "%s" %s 2>&1; echo "status $?"'):format(environment, t.program(), table.concat(words, ' '))
  local pipe = io.popen(command)
  local text = pipe:read('*a')
  pipe:close()
  local said, status = text:match('^(.*)status (%d+)\n$')
  return said, tonumber(status)
end

test('cdiv', function()
  eq(mt.cdiv(0, 32), 0)
  eq(mt.cdiv(1, 32), 1)
  eq(mt.cdiv(32, 32), 1)
  eq(mt.cdiv(33, 32), 2)
  eq(mt.cdiv(2 ^ 53, 1), 2 ^ 53)
  eq(mt.cdiv(2 ^ 53, 3), 3002399751580331)
  raises(function() mt.cdiv(5, 0) end, 'cdiv: 5 / 0; a must be 0 or more, b 1 or more')
  raises(function() mt.cdiv(-1, 2) end, 'cdiv: %-1 / 2')
  raises(function() mt.cdiv(2.5, 2) end, "cdiv: argument 1 'a' must be an integer, got 2.5")
  raises(function() mt.cdiv(2) end, "cdiv: argument 2 'b' is missing")
end)

-- Without NVRTC only the message is tested.
local without = [[local mt = require 'mtorch'
mt.cuda.kernel{source='__global__ void k() {}'}]]
test('without NVRTC there is one sentence', function()
  local said, status = run('MTORCH_NVRTC=/nowhere/libnvrtc.so', '-e', without)
  eq(status, 1)
  local wanted = ":2: cuda.kernel: NVRTC, CUDA's compiler library, cannot be loaded: /nowhere/libnvrtc.so"
  if not said:find(wanted, 1, true) then error(said) end
end)
local there, why = pcall(mt.cuda.kernel, {source = '__global__ void k() {}'})
if not there and why:find('NVRTC, CUDA\'s compiler library', 1, true) then
  print('skipped: ' .. why)
  t.finish()
  os.exit(0)
end

test('NVRTC opened by path finds its builtins where the linker does not', function()
  local place = os.getenv 'MTORCH_NVRTC' or '/usr/local/cuda/lib64/libnvrtc.so.13'
  local linker = '/lib64/ld-linux-x86-64.so.2'
  for _, path in ipairs {place, linker} do
    local file = io.open(path)
    if not file then return print('skipped: there is no ' .. path) end
    file:close()
  end
  local said = run(('MTORCH_CACHE=off MTORCH_NVRTC=%s %s --inhibit-cache'):format(place, linker), '-e', [[
    local mt = require 'mtorch'
    print(mt.cuda.kernel{source = '__global__ void k(float* x) { x[0] = 1; }'} ~= nil)]])
  eq(said, 'true\n')
end)

test('code for the GPU at hand may use what only its architecture has', function()
  if not mt.cuda.is_available() then return print('skipped: the architecture is that of a GPU') end
  mt.cuda.kernel{source = '__global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }'}
end)

-- ---- compiling: no GPU is needed -------------------------------------------------------------------

local scale = [[
__global__ void scale(float* out, const float* x, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * by;
}
]]

test('what a kernel is', function()
  local k = mt.cuda.kernel {source = scale}
  eq(k.name, 'scale')
  eq(k.signature, 'scale(float* out, const float* x, float by, int n)')
  eq(tostring(k), 'kernel scale(float* out, const float* x, float by, int n)')
  eq(k.parameters[2], {name = 'x', type = 'const float* x', dtype = 'float32'})
  eq(mt.cuda.kernel(scale, 'scale').name, 'scale')
  raises(function() return k.nmae end, "scale: a kernel has no 'nmae' %(did you mean 'name'%?%)")
  raises(function() k.name = 'x' end, "scale: 'name' cannot be set")
  raises(function() k(1) end, 'scale: how many threads%? k%[{blocks, threads}%]%(%.%.%)')
  raises(function() return k[1] end, 'scale: a launch is k%[{blocks, threads}%]')
end)

test('the compiler determines the types', function()
  local k = mt.cuda.kernel {source = [[
    typedef double real;
    #define COUNT unsigned
    template <class T, int N> __global__ void fill(T* out, real value, COUNT n) { out[0] = T(value + N + n); }
    extern "C" __global__ void plain(const long long* x, bool b, unsigned char c) {}
  ]], name = 'fill<int, 3>'}
  eq(k.signature, 'fill<int, 3>(int* out, double value, unsigned int n)')
  eq(k.parameters[1].dtype, 'int32')
end)

test('the cache: the second time the code is found on disk, and only for the same text', function()
  local text = '__global__ void cached(float* x) { x[0] = 17; }'
  eq(mt.cuda.kernel {source = text}.cached, false)
  local again = mt.cuda.kernel {source = text}
  eq(again.cached, true)
  if again.milliseconds > 500 then error('slow: ' .. again.milliseconds) end
  eq(mt.cuda.kernel {source = text .. ' '}.cached, false)
  eq(mt.cuda.kernel {source = text, options = {'--use_fast_math'}}.cached, false)
  eq(mt.cuda.kernel {source = text, defines = {N = 1}}.cached, false)
  eq(mt.cuda.kernel {source = text, defines = {N = 1}}.cached, true)
  -- what reads files is compiled each time: they may have changed
  local reads = '#include "mine.h"\n__global__ void k() {}'
  raises(function() mt.cuda.kernel {source = reads} end, 'mine%.h')
  eq(mt.cuda.kernel {source = text, options = {'-I/tmp'}}.cached, false)
  eq(mt.cuda.kernel {source = text, options = {'-I/tmp'}}.cached, false)
  -- in another process, too; without a cache it works the same
  local script = ("print(require'mtorch'.cuda.kernel{source=%q}.cached)"):format(text)
  eq(run('', '-e', script), 'true\n')
  eq(run('MTORCH_CACHE=off', '-e', script), 'false\n')
  eq(run('MTORCH_CACHE=/proc/nothing', '-e', script), 'false\n')
end)

test('what a source for the host includes is accepted; what belongs to the host is named', function()
  local k = mt.cuda.kernel {source = [[
#include <torch/extension.h>
#include <stdio.h>
#include <cstdio>
#include <cmath>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAException.h>
__global__ void k(float* x) { x[0] = std::sqrt(x[0]) + std::abs(-2.0f); }
]]}
  eq(k.signature, 'k(float* x)')
  local text = raises(function()
    mt.cuda.kernel {source = [[
#define CHECK_INPUT(x) TORCH_CHECK(x.is_contiguous(), "")
inline unsigned int cdiv(unsigned int a, unsigned int b) { return (a + b - 1) / b; }
__device__ float twice(float x) { return 2 * x; }
__global__ void conv2d_k(float* m) { if (m[0] > 1) { m[0] = twice(m[0]); } }
torch::Tensor conv2d(torch::Tensor m) {
  CHECK_INPUT(m);
  conv2d_k<<<1, 2>>>(m.data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return m;
}
]]}
  end, "'conv2d_k' does not compile")
  if not text:find("'conv2d_k' does not compile. Leave out what belongs to the host: ", 1, true) then error(text) end
  text = raises(function()
    mt.cuda.kernel {source = [[
__host__ __device__ inline unsigned int cdiv(unsigned int a, unsigned int b) { return (a + b - 1) / b; }
inline void gpuAssert(cudaError_t code, bool abort = true) { if (abort) exit(code); }
__global__ void k(float* x) { x[0] = cdiv(3, 2); }
]]}
  end, 'does not compile')
  if not text:find('compile. Leave out what belongs to the host: only', 1, true) then error(text) end
  text = raises(function() mt.cuda.kernel {source = '__global__ void k() { oops; }'} end, 'does not compile:\n')
  if text:find('Leave out', 1, true) then error(text) end
  raises(function() mt.cuda.kernel {source = 'kernels/k.cu'} end,
    "'kernels/k.cu' is the path of a file, source is its text: source = io.open%('kernels/k.cu'%):read%('%*a'%)")
end)

test('common headers exist, and missing ones are errors with a hint', function()
  local k = mt.cuda.kernel {source = [[
#include <stdint.h>
#include <cstdint>
#include <assert.h>
#include <cassert>
#include <limits.h>
#include <climits>
#include <cfloat>
#include <float.h>
#include <algorithm>
#include <string>
#include <cstring>
#include <type_traits>
#include <cuda_fp16.h>
template <class T, class = std::enable_if_t<std::is_floating_point<T>::value>> __device__ T least(T x) {
  static_assert(std::is_integral_v<const int64_t> && !std::is_integral_v<T>, "");
  static_assert(std::is_same<std::remove_reference_t<T&>, T>::value, "");
  return std::min(x, T(FLT_MAX)) + T(DBL_EPSILON) + INT_MAX + INT32_MAX + std::clamp(3, 1, 2);
}
__global__ void k(float* x, std::int64_t n, uint8_t* y) {
  assert(n > 0);
  std::swap(x[0], x[1]);
  x[0] = least(x[1]);
  memset(y, 0, 4);
}
]]}
  eq(k.signature, 'k(float* x, std::int64_t n, uint8_t* y)')
  eq({k.parameters[2].dtype, k.parameters[3].dtype}, {nil, 'uint8'})
  raises(function() mt.cuda.kernel {source = '#include "mine/own.cuh"\n__global__ void k() {}'} end,
    "'k' does not compile%. 'mine/own%.cuh' was not found: leave the #include out .* options={'%-I/folder'}%.\n")
end)

test('errors of the compiler have the line of this file', function()
  local line = debug.getinfo(1, 'l').currentline
  local text = raises(function()
    mt.cuda.kernel {source = [[
__global__ void broken(float* x) {
  x[0] = undefined_name;
}
]], name = 'broken'}
  end, "cuda%.kernel: 'broken' does not compile:\n")
  local wanted = ('test_cuda_kernel.lua:%d: error: identifier "undefined_name" is undefined'):format(line + 4)
  if not text:find(wanted, 1, true) then error(text) end
  local pieces = '__global__ void ' .. 'pieces() {\n' .. '  oops;\n}'
  text = raises(function() mt.cuda.kernel {source = pieces, name = 'pieces'} end, 'does not compile')
  if not text:find('pieces in [^\n]*test_cuda_kernel.lua:%d+:2: error: identifier "oops"') then error(text) end
  text = raises(function() loadstring("local mt = require 'mtorch'\n\nmt.cuda.kernel{source = [[\n\n" ..
    "__global__ void k() {\n  worse;\n}]]}", '=piped')() end, 'worse')
  if not text:find('source in piped:3:3: error', 1, true) then error(text) end
  text = raises(function() loadstring("local mt = require 'mtorch'\n\nmt.cuda.kernel{source = [[\n\n" ..
    "__global__ void k() {\n  worse;\n}]]}")() end, 'worse')
  if not text:find('"]:6: error', 1, true) then error(text) end
end)

test('errors in the declaration of a kernel', function()
  local function refused(options, sentence) raises(function() mt.cuda.kernel(options) end, sentence) end
  refused({source = 5}, 'kernel: source must be a string, got 5')
  refused({source = scale, name = 'scael'}, "cuda.kernel: the source has no kernel 'scael'; it has 'scale'")
  refused({source = 'int x;'}, 'cuda.kernel: the source has no __global__ function; if a header has it')
  refused({source = 'int x;', name = 'k'}, "the source has no kernel 'k', no __global__ function at all")
  refused({source = scale .. '__global__ void other() {}'},
    "cuda.kernel: the source has the kernels 'scale', 'other'; select one: name='scale'")
  refused({source = 'template <class T> __global__ void k(T x) {}'},
    "'k' is a template; name an instance, as in name='k<float>'")
  refused({source = scale, name = 'scale; int x'}, "'scale; int x' is not the name of a kernel")
  refused({source = scale, nmae = 'scale'}, "kernel: unknown option 'nmae' %(did you mean 'name'%?%)")
  refused({source = scale, device = 'cpu'}, "cuda.kernel: 'cpu' is not a GPU; use 'cuda' or 'cuda:0'")
  refused({source = scale .. '\0'}, 'the source has a zero byte')
  refused({source = scale, options = '-G'}, "options must be a list of strings, got the string '%-G'")
  refused({source = scale, options = {1}}, 'options must be a list of strings')
  refused({source = scale, options = {'-arch=sm_80'}}, "option '%-arch=sm_80' is not supported")
  refused({source = scale, options = {'--no-such'}}, 'no%-such')
  refused({source = scale, defines = {['a b'] = 1}}, 'defines: a b is not a preprocessor name')
  refused({source = scale, defines = {A = 0 / 0}}, 'defines: A is %-?nan')
  refused({source = scale, defines = {A = {}}}, 'defines: A must be a number, a string or a boolean, got a table')
  refused({source = scale, defines = {A = '1\n2'}}, 'defines: A has more than one line')
  refused({source = scale, rank = {y = 2}}, "rank: scale%(.*%) has no tensor 'y'")
  refused({source = scale, rank = {by = 2}}, "has no tensor 'by'")
  refused({source = scale, rank = {1, 1, 1}}, 'has no tensor number 3')
  refused({source = scale, rank = {x = 1.5}}, 'rank of x must be a number of dimensions, got 1.5')
  refused({source = 'struct P { int a; }; __global__ void k(int n, P p) {}'},
    "cuda.kernel: argument 2 'p' %(P p%) cannot be given from Lua")
  refused({source = '__global__ void k(unsigned short* text) {}'},
    "argument 1 'text' %(unsigned short%* text%) cannot be given")
  refused({source = '__global__ void k(float** x) {}'}, "argument 1 'x' %(float%*%* x%) cannot be given")
end)

-- ---- checks before a launch ------------------------------------------------------------------------

local usable, reason = mt.cuda.is_available()
local device = usable and 'cuda' or 'cpu'
local function on_gpu(...) return mt.tensor({...}, {device = device}) end

test('wrong arguments', function()
  local k = mt.cuda.kernel {source = scale}[{1, 32}]
  local x, out = on_gpu(1, 2, 3, 4, 5, 6), on_gpu(0, 0, 0, 0, 0, 0)
  local function wrong(sentence, ...)
    local arguments, n = {...}, select('#', ...)
    raises(function() k(unpack(arguments, 1, n)) end, sentence)
  end
  wrong('scale: 3 arguments given, it takes 4: scale%(float%* out, const float%* x, float by, int n%)', out, x, 2)
  wrong('scale: 0 arguments given')
  wrong("scale: argument 1 'out' %(float%* out%) must be a tensor, got 3", 3, x, 2, 6)
  wrong("argument 2 'x' %(const float%* x%) must be a tensor, got nil", out, nil, 2, 6)
  wrong("argument 2 'x' .* must be a tensor, got a table", out, {1, 2}, 2, 6)
  wrong("argument 2 'x' .* takes a tensor of float32, got one of float64; convert it: x:to%('float32'%)", out,
    x:double(), 2, 6)
  wrong("argument 2 'x' .* takes a tensor of float32, got one of int64", out, x:long(), 2, 6)
  wrong("argument 2 'x' .* is not contiguous: %(3%) with strides %(2%); use x:contiguous%(%)", out, x['1:6:2'], 2, 3)
  wrong("argument 3 'by' %(float by%) must be a number, got a tensor", out, x, x, 6)
  wrong("argument 3 'by' .* must be a number, got the string '2'", out, x, '2', 6)
  wrong("argument 3 'by' .* 1e%+300 does not fit into a float", out, x, 1e300, 6)
  wrong("argument 4 'n' %(int n%) must be an integer from %-2147483648 to 2147483647, got 2.5", out, x, 2, 2.5)
  wrong("must be an integer from .* got 2147483648", out, x, 2, 2 ^ 31)
  wrong("must be an integer from .* got nan", out, x, 2, 0 / 0)
  wrong("argument 4 'n' .* must be a number, got true", out, x, 2, true)
  wrong("argument 2 'x' .* requires a gradient, which a kernel in CUDA C does not have; call it inside mt.no_grad", out,
    mt.ones(6, {device = device}):requires_grad_(), 2, 6)
end)

test('ranges of numbers', function()
  local k = mt.cuda.kernel {source = [[__global__ void k(unsigned char a, signed char b, unsigned short c, unsigned d,
    long long e, unsigned long long f, bool g, double h) {}]]}[{1, 1}]
  local good = {255, -128, 65535, 2 ^ 32 - 1, -2 ^ 53, 2 ^ 53, true, 1e300}
  local bad = {{256, -1, 0.5}, {128, -129}, {65536, -1}, {2 ^ 32, -1}, {2 ^ 54, -2 ^ 54, 1.5}, {-1, 2 ^ 54},
               {1, 0, 'x'}, {true}}
  for i, values in ipairs(bad) do
    for _, value in ipairs(values) do
      local arguments = {unpack(good)}
      arguments[i] = value
      raises(function() k(unpack(arguments, 1, 8)) end, ('k: argument %d .* must be'):format(i))
    end
  end
  if usable then k(unpack(good)) else raises(function() k(unpack(good)) end, 'k: there is no GPU to run it: ') end
end)

test('ranks, and sizes in the signature', function()
  local k = mt.cuda.kernel {
    source = '__global__ void k(const float* m, float* out, int n, const float (*f)[3][2]) {}', rank = {m = 2, out = 0},
  }[{1, 1}]
  local m, out = mt.ones({2, 3}, {device = device}), mt.zeros({}, {device = device})
  local f = mt.ones({5, 3, 2}, {device = device})
  local function try(...) return pcall(k, ...) end
  raises(function() k(m:view(1, 2, 3), out, 1, f) end,
    "k: argument 1 'm' %(const float%* m%) takes a tensor of 2 dimensions, got one of 3: %(1 x 2 x 3%)")
  raises(function() k(m, out:view(1), 1, f) end,
    "argument 2 'out' .* takes a tensor of 0 dimensions, got one of 1: %(1%)")
  raises(function() k(m, out, 1, f:view(5, 6)) end, "argument 4 'f' .* takes a tensor of 3 dimensions, got one of 2")
  raises(function() k(m, out, 1, f:view(5, 2, 3)) end,
    "argument 4 'f' .* takes a tensor with 3 elements in dimension 2, got %(5 x 2 x 3%)")
  if usable then assert(try(m, out, 1, f)) end
  local in_order = mt.cuda.kernel {source = scale, rank = {1, 2}}[{1, 1}]
  raises(function() in_order(m:view(6), m:view(6), 1, 6) end, "argument 2 'x' .* takes a tensor of 2 dimensions")
end)

test('vectors need whole groups', function()
  local k = mt.cuda.kernel {source = '__global__ void k(float4* x) { x[0].x = 1; }'}
  eq(k.parameters[1].dtype, 'float32')
  local x = mt.zeros({8}, {device = device})
  raises(function() k[{1, 1}](x[{{1, 6}}]) end, 'reads 4 elements at once: their number 6 must be a multiple')
  raises(function() k[{1, 1}](x[{{2, 5}}]) end, 'reads 4 elements at once.*aligned')
end)

test('sizes of a launch', function()
  local k = mt.cuda.kernel {source = '__global__ void empty() {}'}
  local function refused(size, sentence) raises(function() k[size]() end, sentence) end
  refused({1}, 'empty: a launch is k%[{blocks, threads}%]%(%.%.%) or .* got 1 entry')
  refused({1, 2, 3, 4}, 'got 4 entries')
  refused({1.5, 1}, 'empty: the number of blocks must be a whole number or {x, y, z} of them, got 1.5')
  refused({1, '1'}, "the number of threads must be a whole number .* got the string '1'")
  refused({{1, 2, 3, 4}, 1}, 'the number of blocks must be a whole number or {x, y, z}')
  refused({{1, {}}, 1}, 'the number of blocks')
  refused({1, 1, 1.5}, 'the bytes of shared memory must be a whole number, got 1.5')
  refused({1, 1, -1}, 'empty: %-1 bytes of shared memory')
  refused({1, 0}, 'empty: 0 threads in x of a block; 1 to 1024')
  refused({1, 1025}, 'empty: 1025 threads in x of a block; 1 to 1024')
  refused({1, {1, 1, 65}}, 'empty: 65 threads in z of a block; 1 to 64')
  refused({1, {33, 32}}, 'empty: 33 x 32 x 1 = 1056 threads in a block; at most 1024')
  refused({-1, 1}, 'empty: %-1 blocks in x; at most 2147483647')
  refused({2 ^ 31, 1}, 'blocks in x; at most 2147483647')
  refused({{1, 65536}, 1}, 'empty: 65536 blocks in y; at most 65535')
  refused({{1, 1, 65536}, 1}, 'empty: 65536 blocks in z; at most 65535')
  if not usable then refused({1, 1}, 'empty: there is no GPU to run it: ') return end
  refused({1, 1, 2 ^ 20}, 'bytes of shared memory are requested')
  k[{0, 32}]() -- nothing to do
  k[{{3, 0}, 32}]()
end)

test('without a GPU a launch is one sentence', function()
  local script = [[local k = require'mtorch'.cuda.kernel{source='__global__ void k(int n) {}'}
print(k.arch)
k[{1, 1}](5)]]
  local said, status = run('MTORCH_CUDA_PLUGIN=/nowhere.so', '-e', script)
  eq(status, 1)
  if not said:find('^90\n.*:3: k: there is no GPU to run it: MTORCH_CUDA_PLUGIN cannot be loaded') then error(said) end
end)

-- ---- kernels that run: on a GPU, or in the emulation -------------------------------------------------

if not usable then
  print('the rest is skipped: ' .. reason)
  t.finish()
  os.exit(0)
end

test('a map with a guard', function()
  local k = mt.cuda.kernel {source = scale}
  for _, n in ipairs {1, 31, 32, 33, 1025} do
    local x, out = mt.randn({n}, {device = 'cuda'}), mt.zeros({n + 5}, {device = 'cuda'})
    k[{mt.cdiv(n, 32), 32}](out[{{1, n}}], x, 2.5, n)
    eq(mt.equal(out[{{1, n}}], x * 2.5), true)
    eq(out[{{n + 1, n + 5}}]:eq(0):all(), true)
  end
  local launch = k[{1, 64}] -- may be kept
  local x, out = on_gpu(1, 2, 3), on_gpu(0, 0, 0)
  launch(out, x, -1, 2)
  eq(out:tolist(), {-1, -2, 0})
  launch(out, x, math.huge, 1)
  eq(out:tolist(), {math.huge, -2, 0})
end)

test('every type, and the order of x, y, z', function()
  local k = mt.cuda.kernel {source = [[
    __global__ void k(double* d, long long* l, int* i, unsigned char* u, bool* b, double v, long long w, int x,
                      unsigned char y, bool z) {
      int at = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
      int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
      at += block * blockDim.x * blockDim.y * blockDim.z;
      d[at] = v; l[at] = w + at; i[at] = x; u[at] = y; b[at] = z;
    }]]}
  local n = 2 * 3 * 4 * 5 * 2 * 3
  local function made(dtype) return (mt.zeros({n}, {dtype = dtype, device = 'cuda'})) end
  local d, l, i, u, b = made 'float64', made 'int64', made 'int32', made 'uint8', made 'bool'
  k[{ {2, 3, 4}, {5, 2, 3} }](d, l, i, u, b, 1e300, -2 ^ 53, -7, 255, true)
  eq(d:eq(1e300):all(), true)
  eq(mt.equal(l, mt.range(0, n - 1):cuda() - 2 ^ 53), true)
  eq(i:eq(-7):all(), true)
  eq(u:eq(255):all(), true)
  eq(b:all(), true)
end)

test('shared memory, fixed and of the launch, and constants', function()
  local k = mt.cuda.kernel {source = [[
    __constant__ float weight[3];
    __device__ int shift;
    __global__ void turn(const float* x, float* out, int n) {
      extern __shared__ float team[];
      __shared__ float first;
      if (threadIdx.x == 0) first = x[0];
      team[threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      out[threadIdx.x] = team[n - 1 - threadIdx.x] * weight[threadIdx.x % 3] + first + shift;
    }]]}
  local x, out = mt.range(1, 64):float():cuda(), mt.zeros({64}, {device = 'cuda'})
  k:set_constant('weight', mt.tensor {1, 2, 3}):set_constant('shift', mt.tensor({100}, {dtype = 'int32'}))
  k[{1, 64, 64 * 4}](x, out, 64)
  local wanted = {}
  for i = 1, 64 do wanted[i] = (65 - i) * ((i - 1) % 3 + 1) + 101 end
  eq(out:tolist(), wanted)
  k:set_constant('weight', mt.tensor({{4, 5}, {5, 7}, {6, 9}}, {device = 'cuda'})[{{}, 1}]) -- strided, on the GPU
  k[{1, 64, 64 * 4}](x, out, 64)
  eq(out:at(2), 63 * 5 + 101)
  raises(function() k:set_constant('wieght', mt.ones(3)) end,
    "turn: the source has no __constant__ or __device__ variable 'wieght'; it has 'weight', 'shift'")
  raises(function() k:set_constant('weight', mt.ones(4)) end, "turn: 'weight' holds 12 bytes, got a tensor %(4%) of 16")
  raises(function() k:set_constant('weight', mt.ones(3):long()) end,
    "turn: 'weight' %(float%) takes float32, got a tensor of int64")
  raises(function() k:set_constant('weight', 5) end, "argument 3 'value' must be a tensor, got 5")
  raises(function() k:set_constant(1, mt.ones(3)) end, 'set_constant: name must be a string, got 1')
  raises(function() k[{1, 64, 64 * 4}](x:cpu(), out, 64) end,
    "turn: argument 2 'out' .* is on cuda:0, another one on cpu")
  raises(function() k[{1, 64, 64 * 4}](x:cpu(), out:cpu(), 64) end,
    "turn: its tensors are on the CPU; move them to the GPU with x:to%('cuda:0'%)")
end)

test('the second GPU', function()
  if mt.cuda.device_count() < 2 then return end
  local text = '__constant__ float c[1]; __global__ void k(float* x, int n) { x[threadIdx.x] = n + c[0]; }'
  local k = mt.cuda.kernel {source = text, device = 'cuda:1'}
  local one, zero = mt.zeros({3}, {device = 'cuda:1'}), mt.zeros({3}, {device = 'cuda:0'})
  k[{1, 3}](one, 3)
  k[{1, 3}](zero, 5) -- compiled and loaded there as well
  eq(one:tolist(), {3, 3, 3})
  eq(zero:tolist(), {5, 5, 5})
  k:set_constant('c', mt.tensor {10})
  k[{1, 3}](one, 3)
  eq(one:tolist(), {13, 13, 13})
  raises(function() k[{1, 3}](zero, 5) end, 'k: its variables were set on cuda:1, its tensors are on cuda:0; ' ..
    "make another kernel, with device='cuda:0'")
  raises(function() k[{1, 3}](zero:cpu(), 5) end, 'k: its tensors are on the CPU')
  raises(function() mt.cuda.kernel {source = text, device = 'cuda:99'} end, "device 'cuda:99' cannot be used")
end)

test('a template, a plain name, vectors', function()
  local k = mt.cuda.kernel {source = [[
    template <class T, int N> __global__ void fill(T* out, T value) { out[threadIdx.x] = value + N; }
    extern "C" __global__ void plain(float4* v) { v[threadIdx.x].z = 7; }
  ]], name = 'fill<long long, 3>'}
  local out = mt.zeros({4}, {dtype = 'int64', device = 'cuda'})
  k[{1, 4}](out, 2 ^ 40)
  eq(out:tolist(), {2 ^ 40 + 3, 2 ^ 40 + 3, 2 ^ 40 + 3, 2 ^ 40 + 3})
  local v = mt.zeros({8}, {device = 'cuda'})
  mt.cuda.kernel {source = 'extern "C" __global__ void plain(float4* v) { v[threadIdx.x].z = 7; }'}[{1, 2}](v)
  eq(v:tolist(), {0, 0, 7, 0, 0, 0, 7, 0})
end)

test('gradients and changes in place', function()
  local k = mt.cuda.kernel {source = scale}[{1, 32}]
  local w = mt.ones({4}, {device = 'cuda'}):requires_grad_()
  local x = on_gpu(1, 2, 3, 4)
  local y = (w * x):sum()
  k(mt.zeros({4}, {device = 'cuda'}), x, 2, 4) -- reads x through a pointer to const
  mt.no_grad(function() k(mt.zeros({4}, {device = 'cuda'}), w, 2, 4) end)
  y:backward()
  eq(w.grad:tolist(), {1, 2, 3, 4})
  y = (w * x):sum()
  k(x, x, 2, 4) -- changes what the product needs for its gradient
  raises(function() y:backward() end, 'changed in place')
  local double = mt.Function {
    forward = function(_, a)
      local out = mt.empty_like(a)
      k(out, a, 2, 4)
      return out
    end,
    backward = function(_, g) return g * 2 end,
  }
  w.grad = nil
  double(w):sum():backward()
  eq(w.grad:tolist(), {2, 2, 2, 2})
end)

test('the output of a kernel is in order', function()
  local said = run('MTORCH_CACHE=' .. folder, '-e', [[local mt = require 'mtorch'
    local k = mt.cuda.kernel{source='__global__ void say(int n) { printf("thread %d of %d\\n", (int)threadIdx.x, n); }'}
    io.write('before\n')
    k[{1, 2}](7)
    mt.cuda.synchronize()
    io.write('after\n')]])
  eq(said, 'before\nthread 0 of 7\nthread 1 of 7\nafter\n')
end)

test('the scripts\' kernels compile', function()
  for name, n in pairs {threads = 4, reduce = 3, matmul = 3, conv2d = 3} do
    local script = ('scripts/lessons/cuda_%s.lua'):format(name)
    local said, status = run('MTORCH_CUDA_PLUGIN=/nowhere.so', script, '--compile')
    eq(status, 0)
    if not said:find(('%d kernels compiled\n$'):format(n)) then error(said) end
    said, status = run('MTORCH_CUDA_PLUGIN=/nowhere.so', script, '--csv', '')
    eq(status, 0)
    local sentence = 'skipped: [^\n]* runs its kernels on an NVIDIA GPU, and MTORCH_CUDA_PLUGIN'
    if not said:find(sentence) then error(said) end
  end
end)

os.execute("rm -r '" .. folder .. "'")
local shaped = [[
__global__ void add(mt::tensor2<float> out, mt::tensor2<const float> x, mt::tensor1<double> r, int by) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0) && j < out.size(1)) {
    out[i][j] = x(i, j) + by;
    out(i, j) += r[i];
  }
}
]]
test('tensors that bring their shape', function()
  local k = mt.cuda.kernel {source = shaped}
  eq(k.signature, 'add(mt::tensor2<float> out, mt::tensor2<const float> x, mt::tensor1<double> r, int by)')
  eq(k.parameters[2], {name = 'x', type = 'mt::tensor2<const float> x', dtype = 'float32'})
  eq(mt.cuda.kernel {source = shaped, defines = {N = 1}}.parameters[3].dtype, 'float64')
  local x = mt.zeros(3, 4)
  raises(function() k[{1, 1}](x, x, mt.zeros(3), 1) end, 'r.* takes a tensor of float64, got one of float32')
  raises(function() k[{1, 1}](mt.zeros(3), x, mt.zeros(3, 'float64'), 1) end, "'out'.*2 dimensions, got one of 1")
  raises(function() k[{1, 1}](5, x, mt.zeros(3, 'float64'), 1) end, "'out'.*must be a tensor, got 5")
  for _, type in ipairs {'mt::tensor2<float>&', 'mt::tensor2<char*>'} do
    local text = '__global__ void k(' .. type .. ' x) {}'
    raises(function() mt.cuda.kernel {source = text} end, 'cannot be given from Lua')
  end
end)

if mt.cuda.is_available() then
  test('tensors that bring their shape: any strides', function()
    local k = mt.cuda.kernel {source = shaped}
    local x, r = mt.range(1, 12):float():view(3, 4):cuda(), mt.tensor({10, 20, 30}, 'float64'):cuda()
    local out = mt.zeros(4, 3):cuda()
    k[{1, {8, 8}}](out:t(), x, r, 2)
    eq(out:tolist(), (x + 2 + r:float():view(3, 1)):t():tolist())
    local middle = mt.zeros(5, 6):cuda()
    k[{1, {8, 8}}](middle[{{2, 4}, {2, 5}}], x, r, 0)
    eq(middle:sum():item(), 78 + 4 * 60)
    eq(middle[{{2, 4}, {2, 5}}]:tolist(), (x + r:float():view(3, 1)):tolist())
  end)

  test('a right script runs where only launches and copies may touch the memory', function()
    local script = ([[local mt = require 'mtorch'
      local k = mt.cuda.kernel {source = %q}
      local x, out = mt.range(1, 1000):float():cuda(), mt.zeros(1000):cuda()
      k[{4, 256}](out, x, 1000)
      print(out:sum():item())]]):format([[
__global__ void twice(float* out, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * 2;
}]])
    local said, status = run('MTORCH_EMULATION=guard', '-e', script)
    eq({said, status}, {'1001000\n', 0})
  end)
end

t.finish()
