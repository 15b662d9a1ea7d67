// device.h -- the interface of a device: the table of verbs that a backend fills in, and their arguments
//
// Strides count elements. Positions are 0-based. The engine has checked every argument, so verbs do
// not fail. Outputs never overlap inputs, except that the output of an elementwise operation may be
// exactly one of its inputs (in place).
//
// A verb gets 16-bit and 8-bit floats only where its struct allows it: map, copy, gather, compress, scatter
// with `set`, reduce on a CPU; of 16 bits matmul, conv and flash_attention on a GPU, whose map does not take
// 8 bits, and on a CPU the calls of matmul and conv that takes_half() and onednn::convolution_scratch() name.
// For all other verbs the engine converts them to float32 (engine/ops/common.h).
#pragma once
#include "kernels/base.h"
#include "kernels/conv.h"
#include "kernels/matmul.h"
#include "kernels/program.h"

namespace mt {

constexpr uint32_t kDeviceAbi = 14;
constexpr int kMaxOperands = 5;

/// out[i] = formula(in0[i], in1[i], .., scalars): part 0 of an elementwise operation is its
/// formula, part k its derivative with respect to input k, which reads first the incoming gradient,
/// then the saved tensors.
struct Map {
  int op, part;
  Dtype dtype;     // of the operands, except a mask (bool) and the result of a comparison (bool)
  unsigned plain;  // bit k: next to storage-only floats operand k is float32, an unrounded number
  int inputs;
  int ndim;
  int64_t size[kMaxDims];
  double scalar[4];
  void* data[kMaxOperands + 1];  // [0] is the output
  int64_t stride[kMaxOperands + 1][kMaxDims];
};

/// out[i] = x[i], converted from one dtype to another.
struct Copy {
  Dtype to, from;
  int ndim;
  int64_t size[kMaxDims];
  void* out;
  const void* in;
  int64_t out_stride[kMaxDims], in_stride[kMaxDims];
  bool streams = false;  // write with non-temporal stores: `out` is in a large storage
};

/// out[kept] = a reduction of op::Reductions over the reduced dimensions of in[kept, reduced]; its
/// struct defines the result's dtype. Positions count through the reduced dimensions in order.
struct Reduce {
  int op;
  Dtype dtype;       // on a CPU also storage-only; results then have compute_dtype(dtype)
  void *out, *out2;  // out2: the second result, with out's strides, in `dtype`. Either may be null
  const void* in;
  double param[4];
  int kept, reduced;  // numbers of dimensions
  int64_t kept_size[kMaxDims], out_stride[kMaxDims], kept_stride[kMaxDims];
  int64_t reduced_size[kMaxDims], reduced_stride[kMaxDims];
};

/// How scatter combines values for the same position. `set`: the last one is kept.
enum class ScatterReduce : int { set, add, mul, max, min };

/// The lines of a tensor along one dimension: n elements with a stride of `step`; the other
/// dimensions define where the lines begin.
struct AlongDim {
  int ndim;
  int64_t size[kMaxDims], out_stride[kMaxDims], in_stride[kMaxDims];
  int64_t n, out_step, in_step;  // with a negative step the line is reversed
};

/// out[i] = a scan of op::Scans of in[0], .., in[i] along each line.
struct Scan {
  int op;
  Dtype dtype;
  void* out;
  int64_t* index;  // the second result of some scans, with out's strides
  const void* in;
  double param[4];
  AlongDim lines;
};

/// The elements first, .., first + keep - 1 of each line in sorted order, and their positions; the
/// sort is stable, and NaN is the largest.
struct Sort {
  Dtype dtype;
  bool descending;
  void* out;       // keep elements along the line
  int64_t* index;  // with out's strides
  const void* in;
  AlongDim lines;  // contiguous: in_step is 1
  int64_t first, keep;
  void* scratch;  // sort_scratch() bytes per thread; for long lines once in total
};
constexpr int64_t kLongLine = 1 << 16;  // the threads of a CPU share a line of this size or more
/// The bytes of scratch for sorting lines of n elements of `element` bytes.
MT_HD constexpr int64_t sort_scratch(int64_t element, int64_t n) {
  return ((element == 8 || n >= INT32_MAX ? 33 : 17) * n + 127) / 64 * 64;
}

/// Softmax or log-softmax of `in` along the middle dimension of contiguous [outer, n, inner], or
/// one of their gradients: then `in` is the result and `grad` the incoming gradient.
enum class SoftmaxPart : int { softmax, log_softmax, softmax_gradient, log_softmax_gradient };
struct Softmax {
  SoftmaxPart part;
  Dtype dtype;
  void* out;
  const void *in, *grad;
  int64_t outer, n, inner;
};

/// One operand of attention, [batch x heads x rows x features]: the features are contiguous, and
/// every row is aligned to 16 bytes.
struct AttentionSide {
  void* data;
  int64_t batch, head, row;  // strides
};
/// out = softmax(scale q k^T) v of 16-bit floats for each head of each batch, with scale > 0, and its backward
/// pass: from `grad`, the gradient of out, to the gradients of q, k and v. `causal`: query i attends to the
/// keys 0 .. i. Consecutive heads of q share one head of k and v. `log_sums` and `delta` are [batch x heads x
/// attention_rows(queries)]: forward writes the first (base 2, of scaled scores) and backward reads it; the
/// second is scratch for backward. Features are multiples of 8, at most kAttentionFeatures.
struct FlashAttention {
  Dtype dtype;
  bool causal, backward;
  float scale;
  int64_t batch;
  int heads, shared_heads, queries, keys, features, value_features;  // shared_heads: of k and v
  AttentionSide q, k, v, out, grad, q_grad, k_grad, v_grad;
  float *log_sums, *delta;
};
constexpr int kAttentionFeatures = 128;
MT_HD constexpr int64_t attention_rows(int64_t queries) { return (queries + 127) / 128 * 128; }

/// x viewed as contiguous [outer, batch, groups, channels_per_group, spatial], with a mean and a
/// biased variance for each row [batch, groups]: out = (x - mean) * rate * weight + bias, where
/// weight and bias (or null) are [groups, channels_per_group] and rate = 1 / sqrt(variance + eps).
/// batch_norm is [N, 1, C, 1, HW], layer_norm [1, rows, 1, D, 1], group_norm [1, N, G, C / G, HW];
/// on GPUs spatial is 1 only where outer is 1. With `grad`, the gradient of out, the verb runs backward:
/// `out` is the gradient of x; those of weight and bias (or null) are initialised with zeros and
/// written as normalize_parts() partial sums. Where the statistics are `given`, for each channel
/// [groups, channels_per_group], there is no backward; out = (x - mean) * (rate * weight) + bias,
/// and `rate` is scratch for one number per channel.
struct Normalize {
  Dtype dtype;
  bool centred;  // false: the mean is taken to be 0
  bool given;
  int64_t outer, batch, groups, channels_per_group, spatial;
  double eps;
  const void *x, *weight, *bias;
  void *out, *mean, *variance, *rate;
  const void* grad;
  void *weight_grad, *bias_grad;
};
/// The number of batch indices that share one partial sum of the weight's gradient.
MT_HD constexpr int64_t normalize_batch_per_part(const Normalize& c) {
  const int64_t most = 65536 / (c.groups * c.channels_per_group);
  return c.spatial > 1 ? 1 : most < 1 ? 1 : most > 512 ? 512 : most;
}
constexpr int64_t normalize_parts(const Normalize& c) {
  return (c.batch + normalize_batch_per_part(c) - 1) / normalize_batch_per_part(c);
}

/// Gather: out[.., i, ..] = in[.., index[.., i, ..], ..] along one dimension, whose stride in `in`
/// is `step`. Scatter: the same with `in` and `out` exchanged; values for the same position are
/// combined in order.
struct Gather {
  Dtype dtype;
  int ndim;
  int64_t size[kMaxDims];  // of index and of the gathered side
  void* out;
  const void* in;
  const int64_t* index;
  int64_t out_stride[kMaxDims], in_stride[kMaxDims],
      index_stride[kMaxDims];  // the indexed tensor's stride is 0 along the indexed dimension
  int64_t step;
  int64_t extent;  // valid positions are `first` to `first + extent - 1`, extent > 0
  int64_t first;
  int64_t back;  // added to a negative position; 0: negative positions are not valid
  ScatterReduce join;
};

/// For contiguous x [batch, channels, size, inner], at and weight [batch, taps, places] and sums
/// [batch, channels, places, inner]: sums[b, c, p, i] = sum over k of x[b, c, at[b, k, p], i] *
/// weight[b, k, p], in the order of k; a negative `at` adds nothing. The other parts are the
/// gradients: of x from `sums`, and of weight from x and `sums`, for inner == 1.
enum class WeightedPart : int { sums, x, weight };
struct WeightedGather {
  WeightedPart part;
  Dtype dtype;
  int64_t batch, channels, size, inner, taps, places;
  void *x, *weight, *sums;  // the one that `part` names is written
  const int64_t* at;
};

/// out[i] = p * step, where p is index[i] as a position from 0 (`add`: this is added to out[i]);
/// with a null `out` the verb only checks whether every position is valid.
struct RavelIndex {
  int ndim;
  int64_t size[kMaxDims];
  const int64_t* index;
  int64_t index_stride[kMaxDims];
  int64_t* out;  // contiguous
  int64_t step, extent, first, back;
  bool add;
};

/// A mask of n elements, and the number of elements that are set before each piece of `kMaskPiece`:
/// `before` has an entry for each piece and one more for the total; `count_mask` fills it.
constexpr int64_t kMaskPiece = 32768;
struct Mask {
  int64_t n;
  const bool* set;
  int64_t* before;
};
/// packed[k] = whole[i] for the k-th i where the mask is set; with `unpack`, the inverse.
struct Compress {
  Mask mask;
  Dtype dtype;
  void *whole, *packed;
  bool unpack;
};
/// out[d][k] = first + coordinate d of the k-th element where the mask of this shape is set.
struct Nonzero {
  Mask mask;
  int ndim;
  int64_t size[kMaxDims];
  int64_t* out;  // ndim rows, contiguous
  int64_t first;
};
/// torch.searchsorted: out[r][i] = first + the number of elements of sorted[r] that are smaller
/// than value[r][i] (`right`: or equal). NaN sorts last.
struct Search {
  Dtype dtype;
  const void *sorted, *value;
  int64_t rows, sorted_row, sorted_size, values;  // sorted_row 0: one sequence for all rows
  int64_t* out;
  int64_t first;
  bool right;
};

enum class Distribution : int { uniform, normal, integer };
/// Fills n contiguous elements from the counters [offset, ..) of the stream `seed` (Philox4x32-10,
/// Salmon 2011): uniform in [0, 1), normal (0, 1), or whole numbers in [low, low + span).
struct Random {
  Distribution what;
  Dtype dtype;
  void* out;
  int64_t n;
  uint64_t seed, offset;
  int64_t low;
  uint64_t span;
};

constexpr int kMaxStates = 3, kMaxNumbers = 11;
/// One parameter in a step of an optimizer: contiguous arrays of n elements.
struct OptimizeTensor {
  int64_t n, before;  // before: the number of elements of the parameters before it
  void* value;
  const void* grad;
  void* state[kMaxStates];  // null: the parameter does not have this state
  int row;                  // of `numbers`
};
/// A step of optimizer `rule` (kernels/optimizers.h) for `count` parameters with n elements in
/// total, all of which have the same states.
struct Optimize {
  int rule;
  unsigned states;  // bit k: state k exists
  Dtype dtype;
  int count;
  int64_t n;
  const OptimizeTensor* tensors;
  const double* numbers;  // rows of kMaxNumbers
  bool on_device;         // in a graph: the rows are in GPU memory, written before each replay
};

/// The cell of one step of a recurrent layer: kernels/cells.h.
enum class CellKind : int { rnn_tanh, rnn_relu, lstm, gru };
/// One step for `rows` sequences, or its backward pass. All rows are contiguous and have `hidden`
/// elements: in `gates` and `gates_grad` for each part that the cell keeps, in `state` for each
/// part that it adds late (GRU).
struct Cell {
  CellKind kind;
  Dtype dtype;
  bool backward;
  int64_t rows, hidden;
  void* gates;        // forward: sums of products, replaced by what backward needs
  const void* state;  // GRU, forward: the products with the state
  const void *h_before, *c_before;
  void *h, *c;                          // forward: written
  const void *h_grad, *c_grad;          // backward: the incoming gradients
  void* gates_grad;                     // written
  void *h_before_grad, *c_before_grad;  // added to; of the state in GRU, of the cell in LSTM
};

/// One side of a Fourier transform. Element e of line b is at (b * line + e * step) * inner, after
/// batch * (index of the batch) and the index of the inner line, in elements: complex ones are pairs
/// (real, imaginary). `half` has the frequencies 0 .. n / 2 of a real signal.
enum class FftLayout : int { complex, real, half };
struct FftSide {
  FftLayout layout;
  void* data;
  int64_t batch, line, step;
  bool whole;     // an element's position is b * line + e * step of `total`, not e of `n`
  int64_t count;  // of complex elements: those at further positions are 0, and not stored
  const void*
      factor;  // or null: complex numbers, by which the elements at these positions are multiplied
};
/// out[k] = sum of in[j] root^(j k) along lines of n elements, for root = exp(-2 pi i / n), or its
/// conjugate for the inverse; from complex to complex, from real to half or from half to real.
/// A transform of `total` = n * m elements is two calls: one along the columns of a matrix with n
/// rows, which multiplies element k of line b by the root of `total` to the power b k if `twiddles`
/// are given, and one along its rows. The two calls of a half side share it as complex numbers.
struct Fft {
  Dtype dtype;
  int64_t outer, columns, n, inner, total;
  double scale,
      inside;         // factors; `inside` of the frequencies of a half side except 0 and total / 2
  const void* roots;  // the powers 0 .. n - 1 of root
  const double*
      twiddles;  // or null: powers of total's root, the first 2^low_bits, then multiples of that
  int64_t low_bits;
  FftSide in, out;
  void* scratch;  // fft_scratch(n) bytes per thread
};
/// Other prime factors make the verb slow: it computes them by the definition.
constexpr int64_t kFftPrime = 31;
MT_HD constexpr int64_t fft_scratch(int64_t n) { return 256 * (n + 1); }

/// A launch of a grid kernel written in Lua: kernels/grid.h.
struct Grid;

/// Every verb: its result, its name, its argument. Each backend defines all of them; the fields of
/// `Verbs`, the functions of `Device`, their declarations (kernels/verbs.h), the tables of the CPU
/// and of the CUDA plug-in, and the profiler's rows are generated from this list. A bool is false
/// where an index is out of bounds: then `out` of gather and ravel_index is undefined, and scatter
/// has skipped the index. That of matmul and conv is false if they need OpenBLAS and there is none:
/// then their result is undefined.
// clang-format off
#define MT_VERBS(V) \
  V(void, map, Map)                \
  V(void, copy, Copy)              \
  V(void, reduce, Reduce)          \
  V(void, scan, Scan)              \
  V(void, sort, Sort)              \
  V(void, softmax, Softmax)        \
  V(void, normalize, Normalize)    \
  V(void, cell, Cell)              \
  V(bool, matmul, Matmul)          \
  V(bool, conv, Conv)              \
  V(void, max_pool, MaxPool)       \
  V(bool, gather, Gather)          \
  V(bool, scatter, Gather)         \
  V(bool, ravel_index, RavelIndex) \
  V(void, count_mask, Mask)        \
  V(void, compress, Compress)      \
  V(void, nonzero, Nonzero)        \
  V(void, search, Search)          \
  V(void, random, Random)          \
  V(void, optimize, Optimize)
/// Verbs of the CPU only: null on a GPU, which runs programs as CUDA C (engine/compiler/cuda).
#define MT_CPU_VERBS(V)                       \
  V(void, run, Run)                           \
  V(void, weighted_gather, WeightedGather)    \
  V(void, fft, Fft)                           \
  V(void, launch_grid, Grid)
/// Verbs of a GPU only: null on the CPU, and on a GPU whose hardware does not support them.
#define MT_GPU_VERBS(V) V(void, flash_attention, FlashAttention)
// clang-format on

/// The functions that a backend fills in; those of Device call them.
struct Verbs {
  void* (*alloc)(size_t bytes);  // 64-byte aligned; null if memory is exhausted
  void (*free)(void* data, size_t bytes);
  void (*sync)();
  /// Copies from and to the CPU's memory; null for the CPU. The source of `upload` may be changed
  /// after the call; `download` waits for all the work queued on the device before it.
  void (*upload)(void* to, const void* from, size_t bytes);
  void (*download)(void* to, const void* from, size_t bytes);
#define MT_FIELD(result, verb, Argument) result (*verb)(const Argument&);
  MT_VERBS(MT_FIELD)
  MT_CPU_VERBS(MT_FIELD)
  MT_GPU_VERBS(MT_FIELD)
#undef MT_FIELD
};

#define MT_ENUMERATOR(result, verb, Argument) verb,
/// A function of Device, or of Gpu (the last three), as passed to interceptors.
enum class Verb : uint8_t {
  MT_VERBS(MT_ENUMERATOR) MT_CPU_VERBS(MT_ENUMERATOR) MT_GPU_VERBS(MT_ENUMERATOR) alloc,
  free,
  sync,
  upload,
  download,
  map_numbers,
  fill,
  upload_later
};
#undef MT_ENUMERATOR
/// The arguments of verbs that are not in the list.
struct Allocation {
  void** data;  // alloc: written; free: the block
  size_t bytes;
};
struct Move {
  void* to;
  const void* from;
  size_t bytes;
};
/// A GPU's map in which some operands are in the CPU's memory: bit k of `numbers`.
struct MapNumbers : Map {
  unsigned numbers;
};

struct Device;
/// The number of interceptors (engine/core/interceptor.h). If it is not 0, calls go through
/// `intercept`, which returns the verb's result, or true.
extern int interceptors;
bool intercept(const Device&, Verb, const void* argument);
inline bool intercepted() { return __atomic_load_n(&interceptors, __ATOMIC_RELAXED) != 0; }

/// A device: its name, its memory and its verbs.
struct Device {
  uint32_t abi;
  const char* name;   // "cpu", "cuda:0"
  const char* model;  // the model name of the hardware; null for the CPU
  /// The error since the last call, or null; call it after a synchronisation.
  const char* (*take_error)();
  Verbs verbs;

#define MT_CALL(result, verb, Argument)                             \
  result verb(const Argument& a) const {                            \
    if (intercepted()) [[unlikely]]                                 \
      return static_cast<result>(intercept(*this, Verb::verb, &a)); \
    return verbs.verb(a);                                           \
  }
  MT_VERBS(MT_CALL)
  MT_CPU_VERBS(MT_CALL)
  MT_GPU_VERBS(MT_CALL)
#undef MT_CALL
  void* alloc(size_t bytes) const {
    if (!intercepted()) [[likely]]
      return verbs.alloc(bytes);
    void* data = nullptr;
    const Allocation a{&data, bytes};
    intercept(*this, Verb::alloc, &a);
    return data;
  }
  void free(void* data, size_t bytes) const {
    const Allocation a{&data, bytes};
    if (intercepted()) [[unlikely]]
      intercept(*this, Verb::free, &a);
    else verbs.free(data, bytes);
  }
  void sync() const {
    if (intercepted()) [[unlikely]]
      intercept(*this, Verb::sync, nullptr);
    else verbs.sync();
  }
  void upload(void* to, const void* from, size_t bytes) const {
    const Move m{to, from, bytes};
    if (intercepted()) [[unlikely]]
      intercept(*this, Verb::upload, &m);
    else verbs.upload(to, from, bytes);
  }
  void download(void* to, const void* from, size_t bytes) const {
    const Move m{to, from, bytes};
    if (intercepted()) [[unlikely]]
      intercept(*this, Verb::download, &m);
    else verbs.download(to, from, bytes);
  }
};

extern const Device* the_cpu;
const Device& start_cpu();
/// The instruction sets that kernels are compiled for.
#ifdef __aarch64__
constexpr const char* kIsaNames = "neon";
#else
constexpr const char* kIsaNames = "base|avx2|avx512";
#endif
/// The CPU, with the kernels of the best instruction set of this machine (MTORCH_ISA selects another one).
inline const Device& cpu_device() { return the_cpu ? *the_cpu : start_cpu(); }
/// The name of that instruction set.
const char* cpu_isa();

}  // namespace mt
