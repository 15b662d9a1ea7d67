// program.cpp -- the run verb on the CPU: a blocked interpreter of expression programs
//
// Each instruction runs its elementwise loop over a block of elements, whose values are in buffers
// in the L1 cache. The bits are the same as those of the operations called one after the other.
#include "kernels/cpu/interpret/program.h"

#include "kernels/cpu/jit/native.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

struct Interpreter {
  const Run& r;
  const Program& p;
  const PreparedStep* const step;
  const int64_t item;       // bytes of a number
  const int64_t block;      // elements of a block
  unsigned direct_outputs;  // bit k: result k may be written directly to its memory
  int ndim;                 // of the run with merged dimensions
  const int64_t* size;
  const int64_t (*stride)[kMaxDims];

  int64_t row() const { return ndim > 0 ? size[ndim - 1] : 1; }
  bool one_row() const { return row() >= kShortRow; }  // blocks end at the end of a row
  void set(Operand* operand) const {
    for (int k = 0; k < p.outputs + p.inputs; ++k)
      operand[k].set(r.data[k], r.is_bool[k] ? 1 : item, ndim, size, stride[k]);
  }

  void run_block(char* const* value, int64_t n) const {
    for (int i = 0; i < p.count; ++i)
      if (step[i].loop) run_step(p, step, i, value, n);
  }

  /// Runs the elements [begin, end) of the flattened index space.
  __attribute__((noinline)) void run_piece(int64_t begin, int64_t end) const {
    Operand* const operand = static_cast<Operand*>(
        __builtin_alloca_with_align(sizeof(Operand) * (p.outputs + p.inputs), 512));
    set(operand);
    char* const slots = static_cast<char*>(
        __builtin_alloca_with_align(size_t(kBufferBytes) * size_t(p.slots), 512));
    char** const value = static_cast<char**>(__builtin_alloca(sizeof(char*) * p.count));
    for (int i = 0; i < p.count; ++i)
      value[i] = p.code[i].slot < 0 ? nullptr : slots + kBufferBytes * p.code[i].slot;
    fill_singles(r, value, smaller(block, end - begin));
    int64_t longest = block;
    for (int k = 0; k < p.outputs + p.inputs; ++k)
      longest = smaller(longest, operand[k].longest(one_row()));
    for (int64_t at = begin, n; at < end && !mt_interrupted; at += n) {
      n = smaller(longest, end - at);
      if (one_row()) n = smaller(n, row() - at % row());
      for (int i = 0; i < p.count; ++i)
        if (p.code[i].op == kInput)
          value[i] = operand[p.outputs + p.code[i].which].read(at, n, one_row());
      char* target[kMaxProgramOutputs];
      for (int k = 0; k < p.outputs; ++k) {
        target[k] = operand[k].target(at, one_row());
        if (direct_outputs >> k & 1) value[p.output[k]] = target[k];
      }
      run_block(value, n);
      for (int k = 0; k < p.outputs; ++k) {
        if (value[p.output[k]] != target[k])
          __builtin_memcpy(target[k], value[p.output[k]], n * operand[k].item);
        operand[k].store(target[k], at, n);
      }
    }
  }

  /// The inputs that are one element, as a bit mask of operands: for all, or for each row.
  uint64_t repeated() const {
    uint64_t bits = 0;
    for (int k = p.outputs; k < p.outputs + p.inputs; ++k) {
      bool everywhere = ndim > 0;
      for (int d = 0; d < ndim; ++d) everywhere &= stride[k][d] == 0;
      bits |= uint64_t(everywhere || (ndim > 0 && one_row() && stride[k][ndim - 1] == 0)) << k;
    }
    return bits;
  }

  /// The same with machine code. If a guard stops it, the interpreter continues.
  void run_piece_native(const Code& code, uint64_t single, int64_t begin, int64_t end) const {
    const int used = p.outputs + p.inputs;
    Operand* const operand =
        static_cast<Operand*>(__builtin_alloca_with_align(sizeof(Operand) * used, 512));
    set(operand);
    int64_t longest = kGrain;
    bool buffered = false;
    for (int k = 0; k < used; ++k) {
      if ((single >> k & 1) || operand[k].direct(one_row())) continue;
      longest = smaller(longest, operand[k].longest(one_row()));
      buffered |= k < p.outputs;
    }
    for (int64_t at = begin, n; at < end && !mt_interrupted; at += n) {
      n = smaller(longest, end - at);
      if (ndim > 1 && one_row()) n = smaller(n, row() - at % row());
      char* data[kMaxProgramOperands];
      for (int k = 0; k < used; ++k)
        data[k] = k < p.outputs     ? operand[k].target(at, one_row())
                  : single >> k & 1 ? operand[k].data + first_of_row(k, at) * operand[k].item
                                    : operand[k].read(at, n, one_row());
      int64_t done = 0;
      while (true) {
        done = run_native(code, reinterpret_cast<void* const*>(data), r.numbers, done, n);
        if (done == n || buffered) break;
        const int64_t more = smaller(n - done, kAround);
        run_piece(at + done, at + done + more);
        if ((done += more) == n) break;
      }
      for (int k = 0; k < p.outputs; ++k) operand[k].store(data[k], at, done);
      if (done < n) run_piece(at + done, at + n);
    }
  }
  static constexpr int64_t kAround = 256;  // elements that are interpreted after a guard failed
  int64_t first_of_row(int k, int64_t at) const {
    return ndim > 0 ? offset_of(at / row(), ndim - 1, size, stride[k]) : 0;
  }
};

template <class T> void fill(char* at, T x, int64_t n) {
  T* const to = reinterpret_cast<T*>(at);
  for (int64_t i = 0; i < n; ++i) to[i] = x;
}

}  // namespace

void prepare(const Run& r, PreparedStep* step) {
  const Program& p = *r.program;
  for (int i = 0; i < p.count; ++i) {
    const Instruction& c = p.code[i];
    step[i] = {nullptr, nullptr, -1, false};
    if (c.op < 0) continue;
    int last = 0;
    for (int k = 0; k < 3; ++k) last = c.in[k] >= 0 ? k : last;
    const Dtype d = p.code[c.in[last]].is_bool ? Dtype::b8 : r.dtype;
    step[i].loop = elementwise_loop(c.op, d, step[i].takes_one);
    step[i].params = c.which >= 0 ? p.params + c.which : nullptr;
    for (int k = 0; step[i].takes_one && k <= last; ++k)
      if (is_single(p.code[c.in[k]])) step[i].one = k;
  }
}

void fill_singles(const Run& r, char* const* value, int64_t n) {
  const Program& p = *r.program;
  for (int i = 0; i < p.count; ++i) {
    const Instruction& c = p.code[i];
    if (!is_single(c)) continue;
    const double x = c.op == kNumber ? r.numbers[c.which] : c.constant;
    if (c.is_bool) __builtin_memset(value[i], x != 0, n);
    else if (r.dtype == Dtype::f32) fill(value[i], float(x), n);
    else if (r.dtype == Dtype::f64) fill(value[i], x, n);
    else if (r.dtype == Dtype::i64) fill(value[i], math::convert<int64_t>(x), n);
    else if (r.dtype == Dtype::i32) fill(value[i], math::convert<int32_t>(x), n);
    else fill(value[i], math::convert<uint8_t>(x), n);
  }
}

unsigned find_direct_outputs(const Run& r) {
  const Program& p = *r.program;
  unsigned direct = 0;
  for (int k = 0; k < p.outputs; ++k) {
    const int op = p.code[p.output[k]].op;
    bool alone = op >= 0 || op == kReduce;
    for (int j = 0; j < k; ++j) alone &= p.output[j] != p.output[k];
    for (int j = 0; j < p.inputs; ++j) alone &= r.data[p.outputs + j] != r.data[k];
    direct |= unsigned(alone) << k;
  }
  return direct;
}

void run(const Run& r) {
  const Program& p = *r.program;
  if (p.by_rows) return run_by_rows(r);
  const int used = p.outputs + p.inputs;
  const int64_t item = item_size(r.dtype);
  int64_t size[kMaxDims], strides[kMaxProgramOperands][kMaxDims], *stride[kMaxProgramOperands];
  for (int d = 0; d < r.ndim; ++d) size[d] = r.size[d];
  for (int k = 0; k < used; ++k) {
    stride[k] = strides[k];
    for (int d = 0; d < r.ndim; ++d) strides[k][d] = r.stride[k][d];
  }
  const int64_t total = count(r.ndim, size);
  if (total == 0) return;
  const int ndim = collapse(r.ndim, size, stride, used);
  PreparedStep* const step =
      static_cast<PreparedStep*>(__builtin_alloca(sizeof(PreparedStep) * p.count));
  const Interpreter in{r,    p,    step,   item, kBufferBytes / item, find_direct_outputs(r),
                       ndim, size, strides};
  prepare(r, step);
  const uint64_t single = in.repeated();
  const Code* const code =
      total * p.count >= kNativeWork ? native_code(p, r.dtype, single) : nullptr;
  parallel_chunks(total, kGrain, total * p.count > kSpreadWork, [&](int64_t begin, int64_t end) {
    if (code) in.run_piece_native(*code, single, begin, end);
    else in.run_piece(begin, end);
  });
}

}  // namespace MT_ISA
}  // namespace mt
