// program_rows.cpp -- the run verb for programs that reduce rows: tiles of full rows, all steps in cache
#include "kernels/cpu/interpret/program.h"
#include "kernels/cpu/jit/native.h"
#include "kernels/reductions.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// How an instruction is interpreted; `mixed`: it combines row values and full rows.
enum class Way : int8_t { none, reduction, row, mixed, elements };

struct Rows {
  const Run& r;
  const Program& p;
  const PreparedStep* const step;
  const int64_t n, item;  // elements of a row, bytes of a number
  int64_t most = 0;       // rows of a tile
  int64_t tile = 0;       // bytes between buffers

  int64_t bytes(int operand) const { return r.is_bool[operand] ? 1 : item; }
  int64_t stride_in_row(int operand) const { return r.stride[operand][r.ndim - 1]; }
  int64_t row_at(int operand, int64_t row) const {
    return offset_of(row, r.ndim - 1, r.size, r.stride[operand]) * bytes(operand);
  }
  bool repeats_row(int operand) const {
    for (int d = 0; d < r.ndim - 1; ++d)
      if (r.stride[operand][d] != 0) return false;
    return true;
  }
  /// Whether the rows are contiguous in memory, so that they need not be copied.
  bool lies_flat(int operand) const {
    int64_t expected = 1;
    for (int d = r.ndim - 1; d >= 0; expected *= r.size[d--])
      if (r.size[d] != 1 && r.stride[operand][d] != expected) return false;
    return true;
  }

  /// Input k of `rows` rows, contiguous: its own memory, or a copy in `buffer`.
  char* read(int operand, bool is_row, int64_t row, int64_t rows, char* buffer) const {
    char* const data = static_cast<char*>(r.data[operand]);
    const int64_t size = bytes(operand), step_in_row = stride_in_row(operand);
    if (!is_row && lies_flat(operand)) return data + row * n * size;
    for (int64_t i = 0; i < rows; ++i) {
      const char* const from = data + row_at(operand, row + i);
      if (is_row) __builtin_memcpy(buffer + i * size, from, size);
      else move_run(buffer + i * n * size, 1, from, step_in_row, n, size);
    }
    return buffer;
  }
  void write(int k, const char* value, bool is_row, int64_t row, int64_t rows) const {
    char* const data = static_cast<char*>(r.data[k]);
    const int64_t size = bytes(k);
    for (int64_t i = 0; i < rows; ++i) {
      char* const to = data + row_at(k, row + i);
      if (is_row) __builtin_memcpy(to, value + i * size, size);
      else move_run(to, stride_in_row(k), value + i * n * size, 1, n, size);
    }
  }

  /// Combines row values and full rows: row by row, with the row value as a number if possible.
  void run_mixed(int i, char* const* value, int64_t rows, char* copies) const {
    const Instruction& c = p.code[i];
    const PreparedStep& s = step[i];
    const auto is_row = [&](int k) {
      return c.in[k] >= 0 && p.code[c.in[k]].is_row && !is_single(p.code[c.in[k]]);
    };
    const int64_t out = c.is_bool ? 1 : item;
    for (int64_t at = 0; at < rows; ++at) {
      char* data[4] = {value[i] + at * n * out, nullptr, nullptr, nullptr};
      int one = s.one;
      for (int k = 0; k < 3 && c.in[k] >= 0; ++k) {
        const Instruction& x = p.code[c.in[k]];
        const int64_t size = x.is_bool ? 1 : item;
        data[k + 1] = value[c.in[k]] + (is_row(k) ? at * size : is_single(x) ? 0 : at * n * size);
        if (!is_row(k)) continue;
        if (s.takes_one && one < 0) one = k;
        else move_run(copies, 1, data[k + 1], 0, n, size), data[k + 1] = copies, copies += n * size;
      }
      s.loop(data, n, s.params, one);
    }
  }

  /// Runs a segment as machine code: row by row if a row value is among its inputs. Returns false
  /// if a guard stopped it.
  bool run_segment(int s, char* const* value, int64_t rows) const {
    const Segment& g = p.segment[s];
    const int outputs = g.program->outputs, used = outputs + g.program->inputs;
    const int64_t lines = by_row[s] ? rows : 1, length = by_row[s] ? n : rows * n;
    for (int64_t row = 0; row < lines; ++row) {
      char* data[kMaxProgramOperands];
      for (int k = 0; k < used; ++k) {
        const int v = k < outputs ? g.out[k] : g.in[k - outputs];
        const int64_t size = p.code[v].is_bool ? 1 : item;
        data[k] = value[v] + row * (p.code[v].is_row ? 1 : n) * size;
      }
      void* const* const at = reinterpret_cast<void* const*>(data);
      if (run_native(*code[s], at, r.numbers, 0, length) != length) return false;
    }
    return true;
  }

  Way way_of(const Instruction& c) const {
    if (c.op == kReduce) return Way::reduction;
    if (c.op < 0) return Way::none;
    if (c.is_row) return Way::row;
    for (int k = 0; k < 3 && c.in[k] >= 0; ++k) {
      const Instruction& x = p.code[c.in[k]];
      if (x.is_row && !is_single(x)) return Way::mixed;
    }
    return Way::elements;
  }
  /// Interprets one instruction. `filled`: the number of elements that the buffers of numbers and
  /// constants have; machine code does not use these.
  void interpret(int i, char* const* value, int64_t rows, char* copies, int64_t& filled) const {
    const Instruction& c = p.code[i];
    if (way[i] == Way::none) return;
    if (way[i] == Way::reduction)
      return row_reduction(c.which, r.dtype)(value[c.in[0]], n, rows, value[i], &c.constant);
    const int64_t elements = way[i] == Way::row ? rows : rows * n;
    if (filled < elements) fill_singles(r, value, filled = elements);
    if (way[i] == Way::mixed) run_mixed(i, value, rows, copies);
    else run_step(p, step, i, value, elements);
  }
  void run_tile(char* const* value, int64_t rows, char* copies, int64_t& filled) const {
    for (int i = 0, s = 0; i < p.count; ++i) {
      const bool begins = s < p.segments && p.segment[s].begin == i;
      const int segment = begins ? s++ : -1;
      if (begins && code[segment] && run_segment(segment, value, rows))
        i = p.segment[segment].end - 1;
      else interpret(i, value, rows, copies, filled);
    }
  }

  void run_piece(int64_t begin, int64_t end) const {
    const int used = p.outputs + p.inputs;
    char* at = r.scratch + worker_number() * row_scratch(p, item, n);
    char** const value = static_cast<char**>(__builtin_alloca(sizeof(char*) * p.count));
    char *buffer[kMaxProgramOperands], *const slots = at;
    for (int i = 0; i < p.count; ++i)
      value[i] = p.code[i].slot < 0 ? nullptr : slots + tile * p.code[i].slot;
    for (int k = 0; k < used; ++k) buffer[k] = slots + tile * (p.slots + k);
    char* const copies = slots + tile * (p.slots + used);
    int64_t filled = 0;
    for (int k = 0; k < p.outputs; ++k)
      if (is_single(p.code[p.output[k]]))
        fill_singles(r, value, filled = smaller(most, end - begin) * n);
    for (int64_t row = begin; row < end && !mt_interrupted; row += most) {
      const int64_t rows = smaller(most, end - row);
      for (int i = 0; i < p.count; ++i) {
        const Instruction& c = p.code[i];
        const int k = p.outputs + c.which;
        if (c.op != kInput || (row > begin && value[i] && !c.is_row && repeats_row(k))) continue;
        value[i] = read(k, c.is_row, row, rows, buffer[k]);
      }
      run_results(value, row, rows, copies, filled);
    }
  }
  /// Results with contiguous rows are computed in place.
  void run_results(char** value, int64_t row, int64_t rows, char* copies, int64_t& filled) const {
    for (int k = 0; k < p.outputs; ++k) {
      const int i = p.output[k];
      if (direct >> k & 1)
        value[i] = static_cast<char*>(r.data[k]) + row * (p.code[i].is_row ? 1 : n) * bytes(k);
    }
    run_tile(value, rows, copies, filled);
    for (int k = 0; k < p.outputs; ++k)
      if (!(direct >> k & 1)) write(k, value[p.output[k]], p.code[p.output[k]].is_row, row, rows);
  }
  /// Looks up the machine code of the segments.
  void find_code() {
    for (int s = 0; s < p.segments; ++s) {
      const Segment& g = p.segment[s];
      uint64_t repeated = 0;
      for (int k = 0; k < g.program->inputs; ++k)
        repeated |= uint64_t(p.code[g.in[k]].is_row) << (g.program->outputs + k);
      by_row[s] = repeated != 0;
      code[s] = native_code(*g.program, r.dtype, repeated);
    }
  }
  /// Chooses as many rows as fit in L1 with all that the machine code reads and writes.
  void choose_tile() {
    constexpr int64_t kCache = 32768;
    int64_t buffers = p.inputs + p.outputs;
    uint64_t seen[(kMaxProgramSlots + 63) / 64] = {};
    for (int s = 0; s < p.segments; ++s)
      for (int k = 0; code[s] && k < p.segment[s].program->outputs; ++k) {
        const int slot = p.code[p.segment[s].out[k]].slot;
        uint64_t& word = seen[slot / 64];
        buffers += !(word >> slot % 64 & 1), word |= uint64_t(1) << slot % 64;
      }
    most = larger(1, smaller(tile_elements(n), kCache / (buffers * item)) / n);
    tile = most * n * item + 64;
  }
  unsigned direct = 0;
  const Code** code = nullptr;
  bool* by_row = nullptr;
  Way* way = nullptr;  // of each instruction
};

}  // namespace

void run_by_rows(const Run& r) {
  const Program& p = *r.program;
  PreparedStep* const step =
      static_cast<PreparedStep*>(__builtin_alloca(sizeof(PreparedStep) * p.count));
  prepare(r, step);
  const int64_t n = r.size[r.ndim - 1], item = item_size(r.dtype);
  const int64_t rows = count(r.ndim - 1, r.size);
  if (rows * n == 0) return;
  Rows work{r, p, step, n, item};
  work.code = static_cast<const Code**>(__builtin_alloca(sizeof(Code*) * (p.segments + 1)));
  work.by_row = static_cast<bool*>(__builtin_alloca(p.segments + 1));
  for (int s = 0; s < p.segments; ++s) work.code[s] = nullptr;
  if (rows * n * p.count >= kNativeWork) work.find_code();
  work.choose_tile();
  work.way = static_cast<Way*>(__builtin_alloca(sizeof(Way) * p.count));
  for (int i = 0; i < p.count; ++i) work.way[i] = work.way_of(p.code[i]);
  for (unsigned k = 0, can = find_direct_outputs(r); k < unsigned(p.outputs); ++k)
    if (can >> k & 1 && !p.code[p.output[k]].is_row && work.lies_flat(int(k)))
      work.direct |= 1u << k;
  const int64_t per_piece = tile_elements(n) / n * (kGrain / tile_elements(n));
  parallel_chunks(rows, per_piece, rows * n * p.count > kSpreadWork,
                  [&](int64_t begin, int64_t end) { work.run_piece(begin, end); });
}

}  // namespace MT_ISA
}  // namespace mt
