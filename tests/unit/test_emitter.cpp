// test_emitter.cpp -- emitted machine code against evaluation of the lane program, bit for bit
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/jit/jit_x64.h"
#include "tests/unit/catch.h"

namespace mt::test {
namespace {

using ir::LaneBuilder;
using ir::LaneInstruction;
using ir::LaneOp;
using ir::LaneProgram;

constexpr double kInf = __builtin_inf(), kNan = __builtin_nan("");

class Rng {
 public:
  explicit Rng(uint64_t seed) : engine_(seed) {}
  uint64_t next() { return engine_(); }
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  double uniform(double low, double high) {
    return low + (high - low) * double(next() >> 11) * 0x1p-53;
  }

 private:
  std::mt19937_64 engine_;
};

template <class T> T from_word(uint64_t word) {
  T x;
  std::memcpy(&x, &word, sizeof(T));
  return x;
}

/// The meaning of each lane instruction, for one element.
template <class T> uint64_t evaluate(const LaneInstruction& x, uint64_t u, uint64_t v, uint64_t w) {
  const uint64_t ones = sizeof(T) == 4 ? 0xffffffffu : ~uint64_t(0);
  const T a = from_word<T>(u), b = from_word<T>(v), c = from_word<T>(w);
  using S = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  switch (x.op) {
    case LaneOp::add: return ir::word_of(T(a + b));
    case LaneOp::sub: return ir::word_of(T(a - b));
    case LaneOp::mul: return ir::word_of(T(a * b));
    case LaneOp::div: return ir::word_of(T(a / b));
    case LaneOp::min: return a < b ? u : v;
    case LaneOp::max: return a > b ? u : v;
    case LaneOp::sqrt: return ir::word_of(std::sqrt(a));
    case LaneOp::floor: return ir::word_of(std::floor(a));
    case LaneOp::ceil: return ir::word_of(std::ceil(a));
    case LaneOp::trunc: return ir::word_of(std::trunc(a));
    case LaneOp::rint: return ir::word_of(std::rint(a));
    case LaneOp::fma:
      return ir::word_of(
          std::fma(x.bits & ir::kMinusProduct ? -a : a, b, x.bits & ir::kMinusAddend ? -c : c));
    case LaneOp::iadd: return (u + v) & ones;
    case LaneOp::isub: return (u - v) & ones;
    case LaneOp::imul: return (u * v) & ones;
    case LaneOp::to_float: return ir::word_of(T(from_word<S>(u)));
    case LaneOp::to_int: {
      const T end = -T(std::numeric_limits<S>::min());
      const bool fits = -end <= a && a < end;
      return uint64_t(fits ? S(a) : std::numeric_limits<S>::min()) & ones;
    }
    case LaneOp::iand: return u & v;
    case LaneOp::ior: return u | v;
    case LaneOp::ixor: return u ^ v;
    case LaneOp::shl: return x.bits >= 8 * sizeof(T) ? 0 : u << x.bits & ones;
    case LaneOp::shr: return x.bits >= 8 * sizeof(T) ? 0 : u >> x.bits;
    case LaneOp::compare: {
      const bool less = a < b, equal = a == b;
      const bool holds[] = {equal, less, less || equal, !equal, !less, !(less || equal)};
      return holds[x.bits];
    }
    case LaneOp::icompare: return x.bits == 0 ? u == v : x.bits == 1 ? u < v : S(u) < S(v);
    case LaneOp::mand: return u & v;
    case LaneOp::mor: return u | v;
    case LaneOp::mxor: return u ^ v;
    case LaneOp::mnot: return !u;
    case LaneOp::select: return u ? v : w;
    default: FAIL("no such instruction"); return 0;
  }
}

/// A program with operands: outputs first, `floats` inputs, `bools` inputs of bools.
struct Case {
  LaneProgram program;
  int floats, bools;
  std::vector<bool> output_is_bool;
  uint64_t repeated = 0;
  int operands() const { return int(output_is_bool.size()) + floats + bools; }
};

/// Operands' memory, an element per word. Guards stop at the element that is returned.
template <class T>
int64_t interpret(const Case& c, std::vector<std::vector<uint64_t>>& data, const double* numbers,
                  int64_t n) {
  std::vector<uint64_t> value(c.program.code.size());
  for (int64_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < value.size(); ++k) {
      const LaneInstruction& x = c.program.code[k];
      const auto at = [&](int j) { return x.in[j] < 0 ? 0 : value[size_t(x.in[j])]; };
      switch (x.op) {
        case LaneOp::load:
        case LaneOp::load_bool:
          value[k] = data[x.bits][c.repeated >> x.bits & 1 ? 0 : size_t(i)];
          break;
        case LaneOp::number: value[k] = ir::word_of(T(numbers[x.bits])); break;
        case LaneOp::constant:
        case LaneOp::truth: value[k] = x.bits; break;
        case LaneOp::guard:
          if (!at(0)) return i;
          break;
        case LaneOp::store:
        case LaneOp::store_bool: data[x.bits][size_t(i)] = at(0); break;
        default: value[k] = evaluate<T>(x, at(0), at(1), at(2));
      }
    }
  }
  return n;
}

template <class T> uint64_t random_word(Rng& rng) {
  const double special[] = {0, -0.0, 1, -1, kInf, -kInf, kNan, 1e-40, -1e-310, 0.5, 1e30, -3.5};
  switch (rng.below(5)) {
    case 0: return ir::word_of(T(special[rng.below(12)]));
    case 1: return sizeof(T) == 4 ? rng.next() >> 32 : rng.next();
    default: return ir::word_of(T(rng.uniform(-8, 8)));
  }
}

/// Of arithmetic with NaN only that it is NaN is said: `exact` values have certain bits, and integer
/// instructions read no others.
template <class T> class Generator {
 public:
  Generator(Rng& rng, int length, int live) : rng_(rng), builder_(sizeof(T)), live_(live) {
    const int outputs = int(rng.between(1, 3));
    c_.floats = int(rng.between(1, 4)), c_.bools = int(rng.below(3));
    for (int k = 0; k < c_.floats; ++k)
      put(builder_.add(LaneOp::load, -1, -1, -1, uint64_t(outputs + k)), true);
    for (int k = 0; k < c_.bools; ++k)
      masks_.push_back(
          builder_.add(LaneOp::load_bool, -1, -1, -1, uint64_t(outputs + c_.floats + k)));
    for (uint64_t k = 0; k < 2; ++k) put(builder_.add(LaneOp::number, -1, -1, -1, k), true);
    for (int k = 0; k < 3; ++k) put(builder_.constant(random_word<T>(rng)), true);
    masks_.push_back(builder_.truth(rng.below(2)));
    for (int k = 0; k < length; ++k) step();
    for (int k = 0; k < outputs; ++k) {
      c_.output_is_bool.push_back(rng.below(3) == 0);
      int32_t sum = any();
      for (int j = 1; j < live && !c_.output_is_bool.back(); ++j)  // keeps many values alive
        sum = builder_.add(LaneOp::add, sum, values_[values_.size() - size_t(j)].id);
      builder_.store(k, c_.output_is_bool.back() ? a_mask() : sum);
    }
    c_.program = builder_.finish();
    c_.program.operands = c_.operands();
    c_.repeated = rng.next() & rng.next() & ((uint64_t(1) << c_.operands()) - 1) &
                  ~((uint64_t(1) << outputs) - 1);
  }
  Case take() { return c_; }

 private:
  struct Value {
    int32_t id;
    bool exact;
  };
  void put(int32_t id, bool exact) { values_.push_back({id, exact}); }
  const Value& pick() {
    const size_t n = values_.size(), recent = std::min(n, size_t(live_ + 3));
    return values_[n - 1 - size_t(rng_.below(int64_t(recent)))];
  }
  int32_t any() { return pick().id; }
  int32_t an_exact() {
    for (int k = 0; k < 20; ++k)
      if (const Value& v = pick(); v.exact) return v.id;
    return values_[0].id;
  }
  int32_t a_mask() { return masks_[size_t(rng_.below(int64_t(masks_.size())))]; }
  void step() {
    const LaneOp op = LaneOp(rng_.between(int(LaneOp::add), int(LaneOp::select)));
    if (op == LaneOp::ternary || op == LaneOp::scale || ir::is_estimate(op)) return;
    const bool whole = op == LaneOp::imul || ir::is_conversion(op);
    if (whole && sizeof(T) == 8) return;  // not in AVX2
    if (ir::is_conversion(op)) return put(builder_.add(op, an_exact()), true);
    if (op >= LaneOp::iadd && op < LaneOp::shl)
      return put(builder_.add(op, an_exact(), an_exact()), true);
    if (op == LaneOp::shl || op == LaneOp::shr)
      return put(builder_.add(op, an_exact(), -1, -1, uint64_t(rng_.below(40))), true);
    if (op == LaneOp::compare)
      return masks_.push_back(builder_.add(op, any(), any(), -1, uint64_t(rng_.below(6))));
    if (op == LaneOp::icompare)
      return masks_.push_back(
          builder_.add(op, an_exact(), an_exact(), -1, uint64_t(rng_.below(3))));
    if (op >= LaneOp::mand && op <= LaneOp::mxor)
      return masks_.push_back(builder_.add(op, a_mask(), a_mask()));
    if (op == LaneOp::mnot) return masks_.push_back(builder_.add(op, a_mask()));
    if (op == LaneOp::select) {
      const Value a = pick(), b = pick();
      return put(builder_.add(op, a_mask(), a.id, b.id), a.exact && b.exact);
    }
    const int n = ir::inputs_of(op);
    put(builder_.add(op, any(), n > 1 ? any() : -1, n > 2 ? any() : -1,
                     op == LaneOp::fma ? uint64_t(rng_.below(4)) : 0),
        false);
  }

  Rng& rng_;
  LaneBuilder builder_;
  const int live_;
  Case c_;
  std::vector<Value> values_;
  std::vector<int32_t> masks_;
};

bool runs(Isa isa) {
  if (std::getenv("MTORCH_JIT")) return false;
  return isa == Isa::avx512
             ? __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl")
             : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/// Runs the code on memory that ends where the operands end, and compares all of it.
template <class T> void check(Rng& rng, const Case& c, const Code& code, int64_t n) {
  const size_t outputs = c.output_is_bool.size();
  const double numbers[] = {rng.uniform(-3, 3), double(rng.between(-2, 2))};
  std::vector<std::vector<uint64_t>> expected(size_t(c.operands()));
  std::vector<std::vector<char>> memory(size_t(c.operands()));
  std::vector<void*> data;
  for (size_t k = 0; k < expected.size(); ++k) {
    const bool bools = k < outputs ? bool(c.output_is_bool[k]) : k >= outputs + size_t(c.floats);
    const size_t item = bools ? 1 : sizeof(T);
    expected[k].resize(size_t(n) + 1);
    memory[k].resize((size_t(n) + 1) * item);  // one more, which must stay
    for (size_t i = 0; i <= size_t(n); ++i) {
      expected[k][i] = bools ? uint64_t(rng.below(2)) : random_word<T>(rng);
      std::memcpy(&memory[k][i * item], &expected[k][i], item);
    }
    data.push_back(memory[k].data());
  }
  const int64_t stop = interpret<T>(c, expected, numbers, n);
  const int64_t at = code.run(data.data(), numbers, 0, n);
  if (stop == n) REQUIRE(at == n);
  REQUIRE((at <= stop && (stop == n || at > stop - 128)));
  for (size_t k = 0; k < outputs; ++k)
    for (size_t i = 0; i < size_t(n) + 1; ++i) {
      if (int64_t(i) >= at && int64_t(i) < n) continue;
      const size_t item = c.output_is_bool[k] ? 1 : sizeof(T);
      uint64_t got = 0;
      std::memcpy(&got, &memory[k][i * item], item);
      const bool both_nan =
          item > 1 && std::isnan(from_word<T>(got)) && std::isnan(from_word<T>(expected[k][i]));
      if (got == expected[k][i] || both_nan) continue;
      FAIL("element " << i << " of " << n << ", result " << k << ": " << std::hex << got << ", not "
                      << expected[k][i] << "\n"
                      << machine_code(c.program, Isa::avx2, c.repeated));
    }
}

template <class T> void check_random(int programs, int length, int live) {
  Rng rng(uint64_t(length * 100 + live));
  for (int p = 0; p < programs; ++p) {
    const Case c = Generator<T>(rng, length, live).take();
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (!runs(isa)) continue;
      const auto code = compile(c.program, isa, c.repeated);
      REQUIRE(code);
      if (p % 25 == 0)
        for (int64_t n = 0; n <= 70; ++n) check<T>(rng, c, *code, n);
      check<T>(rng, c, *code, rng.between(0, 300));
    }
  }
}

}  // namespace

TEST_CASE("emitted code agrees with its program", "[emitter]") {
  check_random<float>(600, 12, 2);
  check_random<double>(300, 12, 2);
  check_random<float>(150, 60, 6);
  check_random<double>(150, 60, 6);
}

TEST_CASE("values that registers can't hold go to the stack", "[emitter]") {
  check_random<float>(60, 150, 40);
  check_random<double>(60, 150, 40);
}

namespace {

using F = ir::Lane<float>;

/// sqrt(a x) + y, wherever x is not negative.
LaneProgram guarded() {
  LaneBuilder builder(4);
  const F x = F::load(1), y = F::load(2);
  builder.set_line(7);
  const F root = sqrt(F::number(0) * x);
  builder.guard((x >= F(0)).id);
  builder.store(0, (root + y).id);
  return builder.finish();
}
LaneProgram doubled() {
  LaneBuilder builder(4);
  builder.store(0, (F::load(1) + F::load(1)).id);
  return builder.finish();
}

}  // namespace

TEST_CASE("a guard stops before the piece that fails, wherever that is", "[emitter]") {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!runs(isa)) continue;
    const auto code = compile(guarded(), isa, 0);
    REQUIRE(code);
    for (int64_t n = 1; n <= 300; n += n < 70 ? 1 : 23)
      for (int64_t bad = 0; bad < n; bad += n < 70 ? 1 : 19) {
        std::vector<float> x(size_t(n), 2.0f), y(x.size(), 1.0f), out(x.size(), -5.0f);
        x[size_t(bad)] = -1;
        const double numbers[] = {8};
        void* const data[] = {out.data(), x.data(), y.data()};
        int64_t at = code->run(data, numbers, 0, n);
        REQUIRE((at <= bad && at > bad - 128));
        for (int64_t i = 0; i < n; ++i) REQUIRE(out[size_t(i)] == (i < at ? 5.0f : -5.0f));
        REQUIRE(code->run(data, numbers, bad + 1, n) == n);
        for (int64_t i = bad + 1; i < n; ++i) REQUIRE(out[size_t(i)] == 5.0f);
      }
  }
}

TEST_CASE("results may be written over inputs, also those that are read late", "[emitter]") {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!runs(isa)) continue;
    LaneBuilder builder(4);
    const F x = F::load(2);
    builder.store(0, (x + F(1)).id);
    builder.store(1, (F::load(3) * F(2) - x).id);
    const auto code = compile(builder.finish(), isa, 0);
    REQUIRE(code);
    for (int64_t n = 0; n <= 200; ++n) {
      std::vector<float> a(size_t(n), 3.0f), b(a);
      void* const data[] = {a.data(), b.data(), a.data(), a.data()};
      REQUIRE(code->run(data, nullptr, 0, n) == n);
      for (int64_t i = 0; i < n; ++i) REQUIRE((a[size_t(i)] == 4 && b[size_t(i)] == 3));
    }
  }
}

TEST_CASE("more operands than there are registers for addresses", "[emitter]") {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!runs(isa)) continue;
    LaneBuilder builder(4);
    F sum(0);
    for (int k = 0; k < 24; ++k) sum = sum + F::load(16 + k) * F(k + 1);
    for (int k = 0; k < 16; ++k) builder.store(k, (sum + F(k)).id);
    const auto code = compile(builder.finish(), isa, uint64_t(1) << 20);
    REQUIRE(code);
    std::vector<std::vector<float>> memory(40, std::vector<float>(100, 1.0f));
    std::vector<void*> data;
    for (auto& m : memory) data.push_back(m.data());
    for (int64_t n = 0; n < 100; n += 7) {
      REQUIRE(code->run(data.data(), nullptr, 0, n) == n);
      for (size_t k = 0; k < 16; ++k)
        for (size_t i = 0; i < 100; ++i)
          REQUIRE(memory[k][i] == (i < size_t(n) ? 300 + float(k) : 1));
    }
  }
}

namespace {

/// n elements of a dtype, `step` apart.
struct Elements {
  Dtype dtype;
  int64_t step;
  std::vector<char> bytes;
  Elements(Dtype d, int64_t by, int64_t n)
      : dtype(d),
        step(by),
        bytes(size_t(n * by * item_size(d))) {}
  int64_t whole(int64_t i) const {
    int64_t x = 0;
    std::memcpy(&x, at(i), size_t(item_size(dtype)));
    if (dtype == Dtype::u8) return x;
    const int shift = int(64 - 8 * item_size(dtype));
    return int64_t(uint64_t(x) << shift) >> shift;
  }
  double real(int64_t i) const {
    if (dtype != Dtype::f32 && dtype != Dtype::f64) return double(whole(i));
    float single;
    double number;
    std::memcpy(&single, at(i), 4);
    if (dtype == Dtype::f32) return double(single);
    std::memcpy(&number, at(i), 8);
    return number;
  }
  void set(int64_t i, double x) {
    const auto whole = int64_t(x);
    const auto single = float(x);
    const void* const from = dtype == Dtype::f32   ? static_cast<const void*>(&single)
                             : dtype == Dtype::f64 ? static_cast<const void*>(&x)
                                                   : static_cast<const void*>(&whole);
    std::memcpy(const_cast<char*>(at(i)), from, size_t(item_size(dtype)));
  }
  const char* at(int64_t i) const { return bytes.data() + i * step * item_size(dtype); }
};

/// Adds the position to elements, where a mask holds, and gathers them in the reverse order.
template <class T> void check_elements(Isa isa, Dtype from, Dtype to, int64_t step, int kind) {
  constexpr int64_t n = 192;
  using W = ir::LaneBits<T>;
  const bool halves = sizeof(T) == 4 && (to == Dtype::i64 || from == Dtype::i64);
  if (halves && to == Dtype::i64 && (kind > 0 || step > 1)) return;
  LaneBuilder builder(sizeof(T));
  const auto operand = [&](int k, Dtype d) { return ir::element_bits(k, d, step > 1); };
  const W position = W::of(builder.add(LaneOp::position));
  W x = W::of(builder.add(LaneOp::load_as, -1, -1, -1, operand(1, from)));
  const bool gathers = item_size(from) >= 4 && step == 1;
  if (gathers)
    x = W::of(builder.add(LaneOp::gather, (W(n - 1) - position).id, -1, -1, operand(1, from)));
  const bool real = is_float(from);
  const int32_t sum = real ? x.id : (x + position).id;
  const int32_t mask =
      kind == 0 ? builder.truth(true) : builder.add(LaneOp::load_bool, -1, -1, -1, 2);
  builder.add(LaneOp::store_as, sum, mask, -1, operand(0, to));
  LaneProgram program = builder.finish();
  program.operands = 3;
  const auto code = compile(program, isa, 0);
  REQUIRE(code);
  Elements in(from, step, n), out(to, step, n), before(to, step, n);
  Rng rng(7);
  std::vector<char> where(n);
  for (int64_t i = 0; i < n; ++i) {
    in.set(i, double(rng.between(from == Dtype::u8 ? 0 : -100, 100)));
    before.set(i, double(rng.between(0, 100)));
    where[size_t(i)] = char(kind == 1 || (kind == 2 && rng.below(2)) || (kind == 2 && i < 40));
  }
  out.bytes = before.bytes;
  void* data[] = {out.bytes.data(),
                  in.bytes.data(),
                  where.data(),
                  reinterpret_cast<void*>(step * item_size(to)),
                  reinterpret_cast<void*>(step * item_size(from)),
                  nullptr};
  REQUIRE(code->run(data, nullptr, 0, n) == n);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = gathers ? n - 1 - i : i;
    if (kind == 0 || where[size_t(i)]) before.set(i, in.real(at) + (real ? 0 : double(i)));
  }
  REQUIRE(out.bytes == before.bytes);
}

}  // namespace

TEST_CASE("elements of other dtypes, strides and masks", "[emitter]") {
  const Dtype whole[] = {Dtype::u8, Dtype::i8, Dtype::i16, Dtype::i32, Dtype::i64};
  for (const Isa isa : {Isa::avx2, Isa::avx512})
    for (const int64_t step : {1, 3})
      for (int kind = 0; kind < 4 && runs(isa); ++kind) {  // all lanes, by a mask; some, none
        for (const Dtype from : whole)
          for (const Dtype to : whole) {
            check_elements<float>(isa, from, to, step, kind);
            check_elements<double>(isa, from, to, step, kind);
          }
        check_elements<float>(isa, Dtype::f32, Dtype::f32, step, kind);
        for (const Dtype from : {Dtype::f32, Dtype::f64})
          for (const Dtype to : {Dtype::f32, Dtype::f64})
            check_elements<double>(isa, from, to, step, kind);
      }
}

TEST_CASE("elements are read while AVX-512 holds more than 16 values in registers", "[emitter]") {
  if (!runs(Isa::avx2)) return;
  LaneBuilder builder(4);
  std::vector<F> held;
  for (int k = 3; k < 23; ++k) held.push_back(sqrt(F::load(k)));
  const uint64_t strided = ir::element_bits(1, Dtype::i16, true),
                 far = ir::element_bits(2, Dtype::f32, false);
  F sum = F::of(builder.add(LaneOp::load_as, -1, -1, -1, strided));
  sum = sum + F::of(builder.add(LaneOp::gather, builder.add(LaneOp::position), -1, -1, far));
  for (const F& x : held) sum = sum + x;
  builder.store(0, sum.id);
  CHECK(compile(builder.finish(), Isa::avx512, 0));
}

namespace {

/// A random program with turns: operands 0.. are carried, then read only, then they move by lanes, by one.
template <class T> struct Turns {
  LaneProgram program;
  int carried, fixed, moving, single;

  explicit Turns(Rng& rng)
      : carried(int(rng.between(1, 3))),
        fixed(int(rng.below(3))),
        moving(int(rng.between(1, 3))),
        single(int(rng.between(0, 3))) {
    LaneBuilder builder(sizeof(T));
    std::vector<int32_t> values, masks;
    const int all = carried + fixed + moving + single;
    for (int k = 0; k < all; ++k) {
      const LaneOp op = k < carried + fixed            ? LaneOp::load
                        : k < carried + fixed + moving ? LaneOp::load_turn
                                                       : LaneOp::load_one;
      values.push_back(builder.add(op, -1, -1, -1, uint64_t(k)));
    }
    values.push_back(ir::Lane<T>(0.5).id);
    values.push_back(builder.add(LaneOp::number, -1, -1, -1, 0));
    const auto any = [&] { return values[size_t(rng.below(int64_t(values.size())))]; };
    masks.push_back(builder.truth(true));
    for (int length = int(rng.between(1, 14)); length > 0; --length) {
      const LaneOp ops[] = {LaneOp::add, LaneOp::sub, LaneOp::mul,    LaneOp::fma,
                            LaneOp::min, LaneOp::max, LaneOp::select, LaneOp::compare};
      const LaneOp op = ops[rng.below(8)];
      if (op == LaneOp::compare) masks.push_back(builder.add(op, any(), any(), -1, 1));
      else if (op == LaneOp::select) values.push_back(builder.add(op, masks.back(), any(), any()));
      else values.push_back(builder.add(op, any(), any(), op == LaneOp::fma ? any() : -1));
    }
    for (int k = 0; k < carried; ++k) {
      builder.carry(k, rng.below(4) ? values.back() : any());
      builder.store(k, k);
    }
    program = builder.finish();
    program.operands = all;
  }

  void interpret(std::vector<std::vector<T>>& data, const std::vector<int64_t>& step,
                 const double* numbers, int64_t turns, size_t n) const {
    const size_t length = program.code.size();
    for (size_t lane = 0; lane < n; ++lane) {
      std::vector<uint64_t> value(length);
      for (int64_t turn = 0; turn < turns; ++turn) {
        for (size_t k = 0; k < length; ++k) {
          const LaneInstruction& x = program.code[k];
          const auto at = [&](int j) { return x.in[j] < 0 ? 0 : value[size_t(x.in[j])]; };
          if (x.op == LaneOp::load) {
            if (turn == 0) value[k] = ir::word_of(data[x.bits][lane]);
          } else if (ir::is_moving(x.op)) {
            const size_t own = x.op == LaneOp::load_one ? 0 : lane;
            value[k] = ir::word_of(data[x.bits][size_t(turn * step[x.bits]) + own]);
          } else if (x.op == LaneOp::number) {
            value[k] = ir::word_of(T(numbers[x.bits]));
          } else if (x.op == LaneOp::constant || x.op == LaneOp::truth) {
            value[k] = x.bits;
          } else if (x.op != LaneOp::store) {
            value[k] = evaluate<T>(x, at(0), at(1), at(2));
          }
        }
        std::vector<uint64_t> next;
        for (const auto& c : program.carries) next.push_back(value[size_t(c.next)]);
        for (size_t c = 0; c < next.size(); ++c) value[size_t(program.carries[c].first)] = next[c];
      }
      for (const LaneInstruction& x : program.code)
        if (x.op == LaneOp::store) data[x.bits][lane] = from_word<T>(value[size_t(x.in[0])]);
    }
  }
};

template <class T> void check_turns(int programs) {
  Rng rng(77 + sizeof(T));
  for (int p = 0; p < programs; ++p) {
    const Turns<T> t(rng);
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (!runs(isa)) continue;
      const auto code = compile(t.program, isa, 0);
      REQUIRE(code);
      const size_t n = size_t(rng.below(200)), all = size_t(t.program.operands);
      const int64_t turns = rng.between(1, 6);
      const double numbers[] = {rng.uniform(-2, 2)};
      std::vector<std::vector<T>> data(all);
      std::vector<int64_t> step(all, 0);
      for (size_t k = 0; k < all; ++k) {
        step[k] = int64_t(k) < t.carried + t.fixed ? 0 : int64_t(n) + rng.below(3);
        data[k].resize(size_t(step[k] * (turns - 1)) + n + 1);
        for (T& x : data[k]) x = T(rng.uniform(-1.5, 1.5));
      }
      auto expected = data;
      t.interpret(expected, step, numbers, turns, n);
      std::vector<void*> pointers;
      for (auto& one : data) pointers.push_back(one.data());
      for (const int64_t s : step)
        pointers.push_back(reinterpret_cast<void*>(s * int64_t(sizeof(T))));
      pointers.push_back(reinterpret_cast<void*>(turns));
      REQUIRE(code->run(pointers.data(), numbers, 0, int64_t(n)) == int64_t(n));
      for (size_t k = 0; k < all; ++k)
        for (size_t i = 0; i < data[k].size(); ++i)
          if (data[k][i] != expected[k][i] &&
              !(std::isnan(data[k][i]) && std::isnan(expected[k][i])))
            FAIL("operand " << k << ", element " << i << " of " << n << ", " << turns
                            << " turns, carried " << t.carried << ": " << data[k][i] << ", not "
                            << expected[k][i] << "\n"
                            << machine_code(t.program, isa, 0));
    }
  }
}

}  // namespace

TEST_CASE("programs with turns keep what is carried in registers", "[emitter]") {
  check_turns<float>(8000);
  check_turns<double>(4000);
}

TEST_CASE("carried masks are exchanged, as vectors are", "[emitter]") {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!runs(isa)) continue;
    LaneBuilder builder(4);
    const int32_t a = builder.add(LaneOp::load_bool, -1, -1, -1, 0);
    const int32_t b = builder.add(LaneOp::load_bool, -1, -1, -1, 1);
    const F x = F::load(2), y = x * F(2) + select(ir::Mask::of(a), F(1), F(0));
    builder.carry(a, b), builder.carry(b, a), builder.carry(x.id, y.id);
    builder.store(0, a), builder.store(1, b), builder.store(2, x.id);
    const auto code = compile(builder.finish(), isa, 0);
    REQUIRE(code);
    std::vector<char> p(100), q(100);
    for (size_t i = 0; i < 100; ++i) p[i] = i % 3 == 0, q[i] = i % 2;
    std::vector<float> sum(100);
    void* data[] = {
        p.data(), q.data(), sum.data(), nullptr, nullptr, nullptr, reinterpret_cast<void*>(3)};
    REQUIRE(code->run(data, nullptr, 0, 100) == 100);
    for (size_t i = 0; i < 100; ++i)
      REQUIRE((p[i] == char(i % 2) && q[i] == (i % 3 == 0) &&
               sum[i] == float(5 * (i % 3 == 0) + 2 * (i % 2))));
  }
}

TEST_CASE("programs with turns that need more registers than there are get no code", "[emitter]") {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    LaneBuilder builder(4);
    for (uint64_t k = 0; k < 40; ++k) {
      const F x = F::load(k);
      builder.carry(x.id, (x + F(1)).id);
      builder.store(k, x.id);
    }
    CHECK(!compile(builder.finish(), isa, 0));
  }
}

TEST_CASE("programs fold constants and keep what is exact", "[emitter]") {
  LaneBuilder builder(4);
  const F x = F::load(1);
  const auto same = [](F a, F b) { return a.id == b.id; };
  CHECK(same(F(2) + F(3), F(5)));
  CHECK(same(x / F(4), x * F(0.25)));
  CHECK(!same(x / F(3), x * F(1.0f / 3)));
  CHECK(same(x * F(1), x));
  CHECK(!same(x + F(0), x));  // -0 becomes 0
  CHECK(same(-(-x), x));
  CHECK(same(x * F(7) + x, x + F(7) * x));
  CHECK(same(select(x < F(0), F(0), x), select(!(x >= F(0)), x, F(0))) == false);
  CHECK((!(x < F(1))).id != (x >= F(1)).id);  // NaN
  CHECK((!!(x < F(1))).id == (x < F(1)).id);
  builder.store(0, (x + F(1)).id);
  CHECK(builder.finish().code.size() == 4);
}

TEST_CASE("the listing names instructions, registers and Lua lines", "[emitter]") {
  const std::string wide = machine_code(guarded(), Isa::avx512, 0);
  CHECK(wide.find("vsqrtps zmm") != std::string::npos);
  CHECK(wide.find("; line 7") != std::string::npos);
  CHECK(wide.find("vmovups [r10+rdx*4], zmm") != std::string::npos);
  const std::string narrow = machine_code(guarded(), Isa::avx2, 0);
  CHECK(narrow.find("vsqrtps ymm") != std::string::npos);
  CHECK(narrow.find("zmm") == std::string::npos);
  CHECK(narrow.find("vmovmskps eax, ymm") != std::string::npos);
}

TEST_CASE("code is compiled and run by several threads at once", "[emitter]") {
  if (!runs(Isa::avx2)) return;
  std::vector<int> wrong(4, 1);
  std::vector<std::thread> threads;
  for (int& bad : wrong)
    threads.emplace_back([&bad] {
      bad = 0;
      for (int round = 0; round < 50; ++round) {
        const auto code = compile(doubled(), Isa::avx2, 0);
        std::vector<float> x(37, 1.5f), out(37);
        void* const data[] = {out.data(), x.data()};
        bad += !code || code->run(data, nullptr, 0, 37) != 37 || out[36] != 3;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("memory is never writable and executable, and may be refused", "[emitter]") {
  if (!runs(Isa::avx2)) return;
  const auto code = compile(doubled(), Isa::avx2, 0);
  REQUIRE(code);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) CHECK(line.find(" rwx") == std::string::npos);

  setenv("MTORCH_JIT", "vm", 1);
  CHECK(!compile(doubled(), Isa::avx2, 0));
  unsetenv("MTORCH_JIT");

  const pid_t child = fork();
  if (child == 0) {
    constexpr int kSetMdwe = 65, kRefuseExecGain = 1;  // Linux 6.3
    if (prctl(kSetMdwe, kRefuseExecGain, 0, 0, 0) != 0) _exit(77);
    _exit(compile(doubled(), Isa::avx2, 0) ? 1 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
}

}  // namespace mt::test
