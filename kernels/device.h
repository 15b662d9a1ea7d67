// device.h -- what a device can do: the table of verbs that a backend fills, and their arguments
//
// Strides count elements. Positions are 0-based. Every argument has been checked by the engine:
// verbs do not fail. Outputs never overlap inputs, except that an elementwise `out` may be exactly
// one of the inputs (in place).
//
// Of the 16-bit floats a verb gets only what its struct names: map, copy, gather, compress, scatter
// that sets, reduce of a CPU, matmul, conv and flash_attention of a GPU. For all others the engine
// converts (engine/core/upcast.h).
#pragma once
#include "kernels/base.h"
#include "kernels/conv.h"
#include "kernels/matmul.h"
#include "kernels/program.h"

namespace mt {

constexpr uint32_t kDeviceAbi = 12;
constexpr int kMaxOperands = 5;

/// out[i] = formula(in0[i], in1[i], .., scalars): part 0 of an elementwise operation is its
/// formula, part k its derivative by input k, which reads the incoming gradient first and then what
/// the operation saves.
struct Map {
  int op, part;
  Dtype dtype;     // of the operands, except a mask (bool) and the answer of a comparison (bool)
  unsigned plain;  // bit k: of 16-bit floats, operand k is a float32: a number that was not rounded
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
  bool streams = false;  // write past the caches: `out` lies in a large storage
};

/// out[kept] = a reduction of op::Reductions over the reduced dimensions of in[kept, reduced]; its
/// struct says the result's dtype. Positions are counted through the reduced dimensions in order.
struct Reduce {
  int op;
  Dtype dtype;       // storage-only on the CPU alone; results are then of compute_dtype(dtype)
  void *out, *out2;  // out2: the second result, with strides of out, in `dtype`. Each may be null
  const void* in;
  double param[4];
  int kept, reduced;  // numbers of dimensions
  int64_t kept_size[kMaxDims], out_stride[kMaxDims], kept_stride[kMaxDims];
  int64_t reduced_size[kMaxDims], reduced_stride[kMaxDims];
};

/// Scatter: what becomes of values that meet. `set`: the last one wins.
enum class ScatterReduce : int { set, add, mul, max, min };

/// The lines of a tensor along one dimension: n elements, `step` apart; the other dimensions say
/// where they begin.
struct AlongDim {
  int ndim;
  int64_t size[kMaxDims], out_stride[kMaxDims], in_stride[kMaxDims];
  int64_t n, out_step, in_step;  // a negative step walks backwards
};

/// out[i] = a scan of op::Scans of in[0], .., in[i] along each line.
struct Scan {
  int op;
  Dtype dtype;
  void* out;
  int64_t* index;  // the second result of some, with out's strides
  const void* in;
  double param[4];
  AlongDim lines;
};

/// The elements first, .., first + keep - 1 of each line in sorted order, and their positions;
/// equal elements stay in their order, NaN is the largest.
struct Sort {
  Dtype dtype;
  bool descending;
  void* out;       // keep elements along the line
  int64_t* index;  // with out's strides
  const void* in;
  AlongDim lines;  // along memory: in_step is 1
  int64_t first, keep;
  void* scratch;  // sort_scratch() bytes for each thread that may run, once for long lines
};
constexpr int64_t kLongLine = 1 << 16;  // from here on the threads of a CPU share each line
/// For lines of n elements of so many bytes.
MT_HD constexpr int64_t sort_scratch(int64_t element, int64_t n) {
  return ((element == 8 || n >= INT32_MAX ? 33 : 17) * n + 127) / 64 * 64;
}

/// Along the middle dimension of contiguous [outer, n, inner]: softmax of `in`, its logarithm, or
/// the gradients of the two, for which `in` is the result and `grad` what came in.
enum class SoftmaxPart : int { softmax, log_softmax, softmax_gradient, log_softmax_gradient };
struct Softmax {
  SoftmaxPart part;
  Dtype dtype;
  void* out;
  const void *in, *grad;
  int64_t outer, n, inner;
};

/// A [batch x heads x rows x features] side of attention: features lie side by side, every row begins at
/// 16 bytes.
struct AttentionSide {
  void* data;
  int64_t batch, head, row;  // strides
};
/// out = softmax(scale q k^T) v of 16-bit floats for each head of each batch, scale > 0, and the way
/// back: of `grad`, the gradient of out, to those of q, k and v. `causal`: query i sees the keys 0 .. i.
/// Heads of q in a row share one of k and v. `log_sums` and `delta` are [batch x heads x
/// attention_rows(queries)]: the first is made forwards (base 2, of scaled scores) and read backwards,
/// the second is room for the way back. Features are multiples of 8, at most kAttentionFeatures.
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

/// x seen as contiguous [outer, batch, groups, channels_per_group, spatial], with a mean and a biased
/// variance for each row [batch, groups]: out = (x - mean) * rate * weight + bias, where weight and
/// bias (or null) are [groups, channels_per_group] and rate = 1 / sqrt(variance + eps). batch_norm is
/// [N, 1, C, 1, HW], layer_norm [1, rows, 1, D, 1], group_norm [1, N, G, C / G, HW]; spatial is 1 only
/// where outer is. With `grad`, the gradient of out, the verb goes back: `out` is the gradient of x,
/// and those of weight and bias (or null), which begin as zeros, come as parts to be added up,
/// normalize_parts() of them. Where the statistics are `given`, those of each channel
/// [groups, channels_per_group], there is no way back; out = (x - mean) * (rate * weight) + bias, and
/// `rate` is room for a number of each channel.
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
/// How many of the batch share one part of the weight's gradient.
MT_HD constexpr int64_t normalize_batch_per_part(const Normalize& c) {
  const int64_t most = 65536 / (c.groups * c.channels_per_group);
  return c.spatial > 1 ? 1 : most < 1 ? 1 : most > 512 ? 512 : most;
}
constexpr int64_t normalize_parts(const Normalize& c) {
  return (c.batch + normalize_batch_per_part(c) - 1) / normalize_batch_per_part(c);
}

/// Gather: out[.., i, ..] = in[.., index[.., i, ..], ..] along one dimension, whose stride in `in`
/// is `step`. Scatter: the same with `in` and `out` exchanged; values that meet are joined, in
/// order.
struct Gather {
  Dtype dtype;
  int ndim;
  int64_t size[kMaxDims];  // of index and of the gathered side
  void* out;
  const void* in;
  const int64_t* index;
  int64_t out_stride[kMaxDims], in_stride[kMaxDims],
      index_stride[kMaxDims];  // 0 along the indexed dimension, on the side that it belongs to
  int64_t step;
  int64_t extent;  // positions go from `first` to `first + extent - 1`, extent > 0
  int64_t first;
  int64_t back;  // what is added to a negative position; 0: there are none
  ScatterReduce join;
};

/// Over contiguous x [batch, channels, size, inner], at and weight [batch, taps, places] and sums [batch, channels,
/// places, inner]: sums[b, c, p, i] = sum over k of x[b, c, at[b, k, p], i] * weight[b, k, p], in the order of k; a
/// negative `at` adds nothing. The other parts are its gradients: x from `sums`, and weight from both, where inner
/// is 1.
enum class WeightedPart : int { sums, x, weight };
struct WeightedGather {
  WeightedPart part;
  Dtype dtype;
  int64_t batch, channels, size, inner, taps, places;
  void *x, *weight, *sums;  // that which `part` names is written
  const int64_t* at;
};

/// out[i] = index[i] * step, counted from 0 (`add`: is added to); a null `out` asks only whether
/// every position is there.
struct RavelIndex {
  int ndim;
  int64_t size[kMaxDims];
  const int64_t* index;
  int64_t index_stride[kMaxDims];
  int64_t* out;  // contiguous
  int64_t step, extent, first, back;
  bool add;
};

/// A mask, n long, and how many of its elements are set before each piece of `kMaskPiece`:
/// `before` has an entry for each piece and one more for the total; `count_mask` fills it.
constexpr int64_t kMaskPiece = 32768;
struct Mask {
  int64_t n;
  const bool* set;
  int64_t* before;
};
/// unpack false: packed[k] = whole[i] for the k-th i where the mask is set; true: the reverse.
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
/// out[r][i] = first + how many elements of sorted[r] come before value[r][i]; of equal ones none
/// (`right`: all). A NaN comes last.
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
/// One parameter in a step of an optimizer: contiguous arrays, n long.
struct OptimizeTensor {
  int64_t n, before;  // before: elements of the parameters that come first
  void* value;
  const void* grad;
  void* state[kMaxStates];  // null: not there
  int row;                  // of `numbers`
};
/// A step of optimizer `rule` (kernels/optimizers.h) for `count` parameters with n elements together,
/// all with the same states.
struct Optimize {
  int rule;
  unsigned states;  // bit k: state k is there
  Dtype dtype;
  int count;
  int64_t n;
  const OptimizeTensor* tensors;
  const double* numbers;  // rows of kMaxNumbers
  bool on_device;  // of a graph: the rows are in the GPU's memory, and written before each replay
};

/// What one step of a recurrent layer computes: kernels/cells.h.
enum class CellKind : int { rnn_tanh, rnn_relu, lstm, gru };
/// One step for `rows` sequences, or the way back through it. All rows are contiguous: of `hidden`
/// elements, in `gates` and `gates_grad` of as many for each part that the cell keeps, in `state` for
/// each that it adds late (GRU).
struct Cell {
  CellKind kind;
  Dtype dtype;
  bool backward;
  int64_t rows, hidden;
  void* gates;        // forward: sums of products, replaced by what the way back needs
  const void* state;  // GRU, forward: the products with the state
  const void *h_before, *c_before;
  void *h, *c;                          // forward: written
  const void *h_grad, *c_grad;          // backward: what came in
  void* gates_grad;                     // written
  void *h_before_grad, *c_before_grad;  // added to; of the state in GRU, of the cell in LSTM
};

/// A launch of a grid kernel that was written in Lua: kernels/grid.h.
struct Grid;

/// Every verb: its result, its name, its argument. Each backend defines all of them; the fields of
/// `Verbs`, the functions of `Device`, their declarations (kernels/verbs.h), the tables of the CPU
/// and of the CUDA plug-in, and the profiler's rows come from this list. A bool is false where a
/// position is not there: then `out` of gather and ravel_index holds anything, and scatter has
/// passed it over.
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
  V(void, matmul, Matmul)          \
  V(void, conv, Conv)              \
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
/// Verbs that only the CPU has: null on a GPU, which runs programs as CUDA C (engine/compiler/cuda).
#define MT_CPU_VERBS(V)                       \
  V(void, run, Run)                           \
  V(void, weighted_gather, WeightedGather)    \
  V(void, launch_grid, Grid)
/// Verbs of a GPU alone: null on the CPU, and on a GPU that has no units for it.
#define MT_GPU_VERBS(V) V(void, flash_attention, FlashAttention)
// clang-format on

/// What a backend fills in: the functions behind those of Device.
struct Verbs {
  void* (*alloc)(size_t bytes);  // 64-byte aligned; null when there is no memory
  void (*free)(void* data, size_t bytes);
  void (*sync)();
  /// From and to the CPU's memory, null for the CPU. The source of `upload` may be changed at once;
  /// `download` waits for all that was asked of the device before.
  void (*upload)(void* to, const void* from, size_t bytes);
  void (*download)(void* to, const void* from, size_t bytes);
#define MT_FIELD(result, verb, Argument) result (*verb)(const Argument&);
  MT_VERBS(MT_FIELD)
  MT_CPU_VERBS(MT_FIELD)
  MT_GPU_VERBS(MT_FIELD)
#undef MT_FIELD
};

#define MT_ENUMERATOR(result, verb, Argument) verb,
/// A function of Device, or of Gpu (the last three): interceptors are told which is called.
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
/// The arguments of verbs that have no struct in the list.
struct Allocation {
  void** data;  // alloc: written; free: the block
  size_t bytes;
};
struct Move {
  void* to;
  const void* from;
  size_t bytes;
};
/// A GPU's map with operands in the CPU's memory: bit k of `numbers`.
struct MapNumbers : Map {
  unsigned numbers;
};

struct Device;
/// How many interceptors there are (engine/core/interceptor.h). While there is one, calls go through `intercept`,
/// which returns what the verb does, or true.
extern int interceptors;
bool intercept(const Device&, Verb, const void* argument);
inline bool intercepted() { return __atomic_load_n(&interceptors, __ATOMIC_RELAXED) != 0; }

/// A device: its name, its memory and its verbs.
struct Device {
  uint32_t abi;
  const char* name;   // "cpu", "cuda:0"
  const char* model;  // what it is sold as; null for the CPU
  /// What went wrong since this was asked last, or null: to be asked after waiting.
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
/// The CPU, with the kernels of the best instruction set this machine has
/// (`MTORCH_ISA=base|avx2|avx512` overrides).
inline const Device& cpu_device() { return the_cpu ? *the_cpu : start_cpu(); }
/// Which instruction set that is: "base", "avx2" or "avx512".
const char* cpu_isa();

}  // namespace mt
