// test_lower.cpp -- expression programs as machine code against the loops of their operations, bit for bit
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/core/device.h"
#include "kernels/cpu/jit/jit_x64.h"
#include "kernels/cpu/jit/lower.h"
#include "tests/unit/support.h"

namespace mt::test {
namespace {

constexpr size_t kNumbers = 2;

/// An expression program in the making; its inputs are numbers.
struct Maker {
  std::vector<Instruction> code;
  std::vector<double> params;
  std::vector<int16_t> outputs;
  int inputs = 0;

  int put(int op, bool is_bool, int which, double constant = 0, const int* in = nullptr) {
    Instruction c{};
    c.op = int16_t(op), c.is_bool = is_bool, c.which = which, c.constant = constant;
    c.line = int32_t(code.size()), c.in[0] = c.in[1] = c.in[2] = -1;
    for (int k = 0; in && k < op_row(op).inputs; ++k) c.in[k] = int16_t(in[k]);
    code.push_back(c);
    return int(code.size()) - 1;
  }
  bool is_bool(int value) const { return code[size_t(value)].is_bool; }
  int add(int op, const int* in, const double* given = nullptr) {
    const OpRow& row = op_row(op);
    const int which = row.params > 0 ? int(params.size()) : -1;
    for (int k = 0; row.params > 0 && k < op::kMaxParams; ++k)
      params.push_back(k >= row.params ? 0 : given ? given[k] : row.info->params[k].value);
    return put(op, row.answers_bool || is_bool(in[row.inputs - 1]), which, 0, in);
  }
  Program program() const {
    Program p{};
    p.code = code.data(), p.count = int(code.size()), p.inputs = inputs;
    p.outputs = int(outputs.size()), p.output = outputs.data(), p.params = params.data();
    p.numbers = int(kNumbers);
    return p;
  }
};

/// The elements of each value, computed by the loops of the operations.
class Reference {
 public:
  Reference(const Maker& m, Dtype dtype, const std::vector<std::vector<double>>& inputs,
            const double* numbers, int64_t n)
      : m_(m),
        item_(size_t(item_size(dtype))) {
    for (size_t i = 0; i < m.code.size(); ++i) {
      const Instruction& c = m.code[i];
      value_.emplace_back(size_t(n) * item_ + 8);
      if (c.op >= 0) calculate(i, dtype, n);
      for (int64_t j = 0; c.op < 0 && j < n; ++j) {
        const double x = c.op == kInput    ? inputs[size_t(c.which)][size_t(j)]
                         : c.op == kNumber ? numbers[c.which]
                                           : c.constant;
        char* const at = &value_[i][size_t(j) * (c.is_bool ? 1 : item_)];
        const float f = float(x);
        if (c.is_bool) *at = x != 0;
        else std::memcpy(at, dtype == Dtype::f32 ? static_cast<const void*>(&f) : &x, item_);
      }
    }
  }
  const std::vector<char>& of(int value) const { return value_[size_t(value)]; }

 private:
  void calculate(size_t i, Dtype dtype, int64_t n) {
    const Instruction& c = m_.code[i];
    const OpRow& row = op_row(c.op);
    Map map{};
    map.op = c.op, map.inputs = row.inputs, map.ndim = 1, map.size[0] = n;
    map.dtype = m_.is_bool(c.in[row.inputs - 1]) ? Dtype::b8 : dtype;
    for (int k = 0; k < row.params; ++k) map.scalar[k] = m_.params[size_t(c.which + k)];
    map.data[0] = value_[i].data(), map.stride[0][0] = 1;
    for (int k = 0; k < row.inputs; ++k)
      map.data[k + 1] = value_[size_t(c.in[k])].data(), map.stride[k + 1][0] = 1;
    cpu_device().map(map);
  }
  const Maker& m_;
  const size_t item_;
  std::vector<std::vector<char>> value_;
};

bool equal(const char* a, const char* b, size_t item) {
  if (item == 1) return *a == *b;
  if (item == 4) {
    float x, y;
    std::memcpy(&x, a, 4), std::memcpy(&y, b, 4);
    return same_value(x, y);
  }
  double x, y;
  std::memcpy(&x, a, 8), std::memcpy(&y, b, 8);
  return same_value(x, y);
}

/// Runs the code; where a guard stops, a piece of the reference takes its place.
void check_code(const Maker& m, const Code& code, Dtype dtype,
                const std::vector<std::vector<double>>& inputs, const Reference& reference,
                const double* numbers, int64_t n) {
  const size_t item = size_t(item_size(dtype)), outputs = m.outputs.size();
  std::vector<std::vector<char>> memory(outputs + inputs.size());
  std::vector<void*> data;
  for (size_t k = 0; k < memory.size(); ++k) {
    memory[k].resize(size_t(n) * item + 8, 0x55);
    for (size_t i = 0; k >= outputs && i < size_t(n); ++i) {
      const double x = inputs[k - outputs][i];
      const float f = float(x);
      std::memcpy(&memory[k][i * item], item == 4 ? static_cast<const void*>(&f) : &x, item);
    }
    data.push_back(memory[k].data());
  }
  int64_t at = 0, stops = 0;
  while ((at = code.run(data.data(), numbers, at, n)) < n) {
    const int64_t end = std::min(n, at + 128);
    for (size_t k = 0; k < outputs; ++k) {
      const size_t bytes = m.is_bool(m.outputs[k]) ? 1 : item;
      std::memcpy(&memory[k][size_t(at) * bytes],
                  reference.of(m.outputs[k]).data() + size_t(at) * bytes, size_t(end - at) * bytes);
    }
    at = end, ++stops;
  }
  for (size_t k = 0; k < outputs; ++k) {
    const size_t bytes = m.is_bool(m.outputs[k]) ? 1 : item;
    for (size_t i = 0; i < size_t(n); ++i)
      if (!equal(&memory[k][i * bytes], &reference.of(m.outputs[k])[i * bytes], bytes)) {
        std::string text;
        for (const Instruction& c : m.code)
          text += fmt::format("{} {} {} {} {}\n",
                              c.op < 0 ? std::to_string(c.op) : op_row(c.op).info->name, c.in[0],
                              c.in[1], c.in[2], c.constant);
        FAIL("element " << i << " of " << n << ", result " << k << "\n" << text);
      }
  }
}

bool check(const Maker& m, Dtype dtype, const std::vector<std::vector<double>>& inputs, int64_t n) {
  ir::LaneProgram lanes;
  if (!lower(m.program(), dtype, lanes)) return false;
  Isa best;
  if (!jit_isa(best) || std::getenv("MTORCH_JIT")) return true;
  const double numbers[kNumbers] = {0.75, -2};
  const Reference reference(m, dtype, inputs, numbers, n);
  bool estimates = false;  // inverses: the bits are those of the loops' own instruction set
  for (const ir::LaneInstruction& x : lanes.code) estimates |= ir::is_estimate(x.op);
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa != best && (isa == Isa::avx512 || estimates)) continue;
    const auto code = compile(lanes, isa, 0);
    REQUIRE(code);
    check_code(m, *code, dtype, inputs, reference, numbers, n);
  }
  return true;
}

double sample(Rng& rng) {
  const double special[] = {0, -0.0, 1, -1, kInf, -kInf, kNan, 0.5, -0.5, 2, 88, -104, 1e-40, 3e38};
  switch (rng.below(8)) {
    case 0: return special[rng.below(14)];
    case 1: return std::ldexp(rng.uniform(-2, 2), int(rng.between(-130, 120)));
    case 2: return double(rng.between(-5, 5));
    default: return rng.uniform(-6, 6);
  }
}
std::vector<std::vector<double>> samples(Rng& rng, int inputs, int64_t n) {
  std::vector<std::vector<double>> all(static_cast<size_t>(inputs));
  for (auto& one : all)
    for (int64_t i = 0; i < n; ++i) one.push_back(sample(rng));
  return all;
}

}  // namespace

MT_TEST("each operation's machine code has the bits of its loop", "[emitter]") {
  Rng rng(5);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    int lowered = 0;
    for (int op = 0; op < kOps; ++op) {
      const OpRow& row = op_row(op);
      Maker m;
      int in[3] = {};
      m.inputs = row.inputs;
      for (int k = 0; k < row.inputs; ++k) in[k] = m.put(kInput, false, k);
      if (row.mask_first) {
        const int both[] = {in[0], m.put(kConstant, false, -1, 0.5)};
        in[0] = m.add(op::id<op::Gt>, both);
      }
      if (row.info->accepts == op::Accepts::integer) continue;
      m.outputs.push_back(int16_t(m.add(op, in)));
      INFO(row.info->name << ", " << dtype_name(dtype));
      if (!check(m, dtype, samples(rng, row.inputs, 5000), 5000)) continue;
      ++lowered;
      for (int64_t n = 0; n < 40; ++n) check(m, dtype, samples(rng, row.inputs, n), n);
    }
    CHECK(lowered > 89);
  }
}

MT_TEST("random programs' machine code has the bits of their operations", "[emitter]") {
  Rng rng(11);
  int lowered = 0;
  for (int round = 0; round < 400; ++round) {
    const Dtype dtype = rng.below(3) ? Dtype::f32 : Dtype::f64;
    Maker m;
    m.inputs = int(rng.between(1, 4));
    std::vector<int> numbers, bools;
    for (int k = 0; k < m.inputs; ++k) numbers.push_back(m.put(kInput, false, k));
    for (int k = 0; k < int(kNumbers); ++k) numbers.push_back(m.put(kNumber, false, k));
    numbers.push_back(m.put(kConstant, false, -1, rng.uniform(-2, 2)));
    bools.push_back(m.put(kConstant, true, -1, double(rng.below(2))));
    const auto one_of = [&](const std::vector<int>& from) {
      const size_t recent = std::min(from.size(), size_t(6));
      return from[from.size() - 1 - size_t(rng.below(int64_t(recent)))];
    };
    for (int length = int(rng.between(1, 25)); length > 0;) {
      const int op = int(rng.below(kOps));
      const OpRow& row = op_row(op);
      const bool logic = row.info->facts.logical || op == op::id<op::LogicalNot>;
      const bool of_bools = (logic || op == op::id<op::Where>)&&rng.below(2);
      if (row.info->accepts == op::Accepts::integer) continue;
      if (op == op::id<op::Signbit> || op == op::id<op::Copysign>) continue;  // see the sign of NaN
      int in[3] = {};
      for (int k = 0; k < row.inputs; ++k)
        in[k] = one_of((row.mask_first && k == 0) || of_bools ? bools : numbers);
      Maker longer = m;
      const int value = longer.add(op, in);
      longer.outputs = {int16_t(value)};
      ir::LaneProgram lanes;
      if (!lower(longer.program(), dtype, lanes)) continue;
      m = longer;
      (m.is_bool(value) ? bools : numbers).push_back(value);
      --length;
    }
    m.outputs = {int16_t(numbers.back()), int16_t(one_of(numbers)), int16_t(one_of(bools))};
    const int64_t n = rng.between(0, 600);
    lowered += check(m, dtype, samples(rng, m.inputs, n), n);
  }
  CHECK(lowered == 400);
}

}  // namespace mt::test
