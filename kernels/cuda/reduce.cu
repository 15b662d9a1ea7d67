// reduce.cu -- the reduce verb on CUDA: rows and columns, as a whole or split into parts
//
// The elements of a thread, and the order in which partial results are combined, depend only on the
// shape: the same bits on every run. Floats are summed in double, as on the CPU.
#include "kernels/cuda/cuda.h"
#include "kernels/table.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int kBlock = 256;
constexpr int kAcross = 32, kDown = kBlock / kAcross;  // a block over columns
constexpr int64_t kPart = 16384;                       // elements of one output per block

// ---- the sequential reduction of one thread, in the order of its elements ------------------------

template <class Op, class Element> class ThreadReducer {
 public:
  using T = Element;
  using State = op::StateOf<Op, T>;
  __device__ void enter(T x, int64_t i, const double* param) {
    s_ = Op::combine(s_, op::enter<Op, State>(x, i, param));
  }
  __device__ State state() const { return s_; }

 private:
  State s_ = Op::template identity<State>();
};
/// Sums deviations from the first element, without a division for each: since it is an element, it
/// is never so far from the mean that more than log2(n) bits of m2 are lost.
template <class Element> class ThreadReducer<op::Var, Element> {
 public:
  using T = Element;
  __device__ void enter(T x, int64_t, const double*) {
    if (n_ == 0) first_ = double(x);
    const double d = double(x) - first_;
    n_ += 1, sum_ += d, squares_ += d * d;
  }
  __device__ op::Moments state() const {
    if (n_ == 0) return op::Var::identity<op::Moments>();
    const double mean = sum_ / n_, m2 = squares_ - sum_ * mean;
    return {n_, first_ + mean, m2 < 0 ? 0.0 : m2};
  }

 private:
  double n_ = 0, first_ = 0, sum_ = 0, squares_ = 0;
};
/// Computes one exponential for each element, in the precision of the element.
template <class Element> class ThreadReducer<op::LogSumExp, Element> {
 public:
  using T = Element;
  using State = op::LogSumExpState<T>;
  __device__ void enter(T x, int64_t, const double*) {
    const T d = x - s_.offset;
    if (s_.sum > 0 && s_.sum < math::kInfinity && d - d == T(0)) {
      const double e = double(math::exp(-math::fabs(d)));
      if (d > T(0)) s_ = {x, s_.sum * e + 1};
      else s_.sum += e;
    } else {
      s_ = op::LogSumExp::combine(s_, op::LogSumExp::enter<State>(x, 0, nullptr));
    }
  }
  __device__ State state() const { return s_; }

 private:
  State s_ = op::LogSumExp::identity<State>();
};

// ---- kernels ------------------------------------------------------------------------------------

/// A reduction split into `parts` of `part` elements each; `partial` (outputs x parts) holds the
/// partial results if there are several parts.
struct Job {
  Reduce r;
  int64_t outputs, elements, part, parts;
  void* partial;
};

__device__ inline int64_t begin_of(const Job& j, int64_t output) {
  return offset_of(output, j.r.kept, j.r.kept_size, j.r.kept_stride);
}
template <class Op, class T>
__device__ void write(const Job& j, int64_t output, const op::StateOf<Op, T>& s) {
  using Out = op::ResultType<Op, T>;
  const int64_t at = offset_of(output, j.r.kept, j.r.kept_size, j.r.out_stride);
  const op::ReduceCall call{double(j.elements), j.r.param};
  if (!Op::two_results || j.r.out)
    static_cast<Out*>(j.r.out)[at] = math::convert<Out>(Op::template finish<T>(s, call));
  if constexpr (Op::two_results)
    if (j.r.out2) static_cast<T*>(j.r.out2)[at] = Op::template second<T>(s);
}
template <class Op, class T>
__device__ void finish(const Job& j, int64_t output, int64_t part, const op::StateOf<Op, T>& s) {
  if (j.parts > 1) static_cast<op::StateOf<Op, T>*>(j.partial)[output * j.parts + part] = s;
  else write<Op, T>(j, output, s);
}

/// Combines the states of `n` threads, which are `apart` from each other in shared memory, into the
/// first of them, for thread 0.
template <class Op, class State>
__device__ void join_shared(State* all, const State& s, int thread, int n, int apart = 1) {
  all += thread * apart;
  *all = s;
  for (int half = n / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) *all = Op::combine(*all, all[half * apart]);
  }
}

/// Reduces the elements i, i + by, .. below `to` of a line, with eight loads in flight.
template <class Own>
__device__ void enter_line(const Job& j, int64_t base, int64_t i, int64_t to, int by, Own& own) {
  using T = typename Own::T;
  constexpr int at_once = 8;
  if (j.r.reduced == 1) {
    const int64_t stride = j.r.reduced_stride[0], step = by * stride;
    const T* in = static_cast<const T*>(j.r.in) + base + i * stride;
    for (; i + (at_once - 1) * by < to; i += at_once * by, in += at_once * step) {
      T x[at_once];
      for (int k = 0; k < at_once; ++k) x[k] = in[k * step];
      for (int k = 0; k < at_once; ++k) own.enter(x[k], i + k * by, j.r.param);
    }
    for (; i < to; i += by, in += step) own.enter(*in, i, j.r.param);
  } else {
    for (; i < to; i += by)
      own.enter(static_cast<const T*>(
                    j.r.in)[base + offset_of(i, j.r.reduced, j.r.reduced_size, j.r.reduced_stride)],
                i, j.r.param);
  }
}

// How the threads of a block share outputs: `size` threads, of which this one is `number`, reduce
// `output`, one of kOutputs; their states are `apart` from each other, starting at `first`.

/// One block for each output, or for each part of one (the grid's y).
struct Line {
  static constexpr int kOutputs = 1, output = 0, first = 0, apart = 1;
  int number = int(threadIdx.x), size = int(blockDim.x);
};
/// Many short lines: 32 threads for each.
struct ShortLine {
  static constexpr int kOutputs = kBlock / 32, size = 32, apart = 1;
  int number = int(threadIdx.x), output = int(threadIdx.y), first = output * 32;
};
/// Adjacent outputs: a thread reduces every kDown-th element of one column.
struct Column {
  static constexpr int kOutputs = kAcross, size = kDown, apart = kAcross;
  int number = int(threadIdx.y), output = int(threadIdx.x), first = output;
};

template <class Op, class T, class Share> __global__ void outputs(const __grid_constant__ Job j) {
  using State = op::StateOf<Op, T>;
  const Share t;
  State* const all = cuda::shared_memory<State>() + t.first;
  for (int64_t o0 = int64_t(blockIdx.x) * t.kOutputs; o0 < j.outputs;
       o0 += int64_t(gridDim.x) * t.kOutputs) {
    const int64_t o = o0 + t.output, from = int64_t(blockIdx.y) * j.part;
    const int64_t to = smaller(j.elements, from + j.part);
    ThreadReducer<Op, T> own;
    if (o < j.outputs) enter_line(j, begin_of(j, o), from + t.number, to, t.size, own);
    join_shared<Op>(all, own.state(), t.number, t.size, t.apart);
    if (t.number == 0 && o < j.outputs) finish<Op, T>(j, o, blockIdx.y, *all);
    __syncthreads();  // before the states of the next outputs
  }
}

/// Combines the parts of each output, with one block for it.
template <class Op, class T> __global__ void join_parts(const __grid_constant__ Job j) {
  using State = op::StateOf<Op, T>;
  State* const all = cuda::shared_memory<State>();
  for (int64_t o = blockIdx.x; o < j.outputs; o += gridDim.x) {
    const State* const part = static_cast<const State*>(j.partial) + o * j.parts;
    State s = Op::template identity<State>();
    for (int64_t p = threadIdx.x; p < j.parts; p += blockDim.x) s = Op::combine(s, part[p]);
    join_shared<Op>(all, s, int(threadIdx.x), int(blockDim.x));
    if (threadIdx.x == 0) write<Op, T>(j, o, *all);
    __syncthreads();
  }
}

int threads_for(int64_t n) {
  int threads = 32;
  while (threads < kBlock && threads < n) threads *= 2;
  return threads;
}

template <class Op, class T> void run(const Reduce& r) {
  using State = op::StateOf<Op, T>;
  Job j;
  j.r = r;
  j.outputs = count(r.kept, r.kept_size), j.elements = count(r.reduced, r.reduced_size);
  if (j.outputs == 0) return;
  const bool by_columns = r.kept > 0 && r.kept_stride[r.kept - 1] == 1 &&
                          r.kept_size[r.kept - 1] >= 8 &&
                          !(r.reduced > 0 && r.reduced_stride[r.reduced - 1] == 1);
  const int64_t tiles = by_columns ? (j.outputs + kAcross - 1) / kAcross : j.outputs;
  // Few outputs of many elements are split into parts, at most 1024 for each output.
  j.parts = 1;
  const int64_t part = by_columns ? kPart / 64 : kPart;
  if (tiles < 512 && j.elements > part) j.parts = (j.elements + part - 1) / part;
  if (j.parts > 1024) j.parts = 1024;
  j.part = (j.elements + j.parts - 1) / j.parts;
  if (j.part > 0) j.parts = (j.elements + j.part - 1) / j.part;
  if (j.parts < 1) j.parts = 1;
  const cuda::Scratch scratch(j.parts > 1 ? size_t(j.outputs * j.parts) * sizeof(State) : 0);
  j.partial = scratch.as<void>();
  const auto start = [&](auto kernel, int64_t blocks, int64_t parts, dim3 block) {
    cuda::launch_blocks("reduce", kernel,
                        dim3(unsigned(smaller<int64_t>(blocks, 1 << 20)), unsigned(parts)), block,
                        block.x * block.y * sizeof(State), j);
  };
  if (by_columns) {
    start(outputs<Op, T, Column>, tiles, j.parts, dim3(kAcross, kDown));
  } else if (j.parts == 1 && j.elements > 32 && j.elements <= 4096 && j.outputs >= 4096) {
    constexpr int each = ShortLine::kOutputs;
    start(outputs<Op, T, ShortLine>, (j.outputs + each - 1) / each, 1, dim3(32, each));
  } else {
    start(outputs<Op, T, Line>, tiles, j.parts, threads_for(j.part));
  }
  if (j.parts > 1) start(join_parts<Op, T>, j.outputs, 1, threads_for(j.parts));
}

// ---- tables -------------------------------------------------------------------------------------

struct Loops {
  using Loop = void (*)(const Reduce&);
  template <class Op, class T> static constexpr Loop of() {
    if constexpr (op::accepts<T>(Op::info.takes)) return run<Op, T>;
    else return nullptr;
  }
};

}  // namespace

void reduce(const Reduce& call) {
  op::loop_of<Loops>(call.op, call.dtype, op::Reductions{})(collapsed(call));
}

}  // namespace MT_ISA
}  // namespace mt
