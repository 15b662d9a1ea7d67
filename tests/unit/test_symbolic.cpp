// test_symbolic.cpp -- the formulas of kernels/math/ record themselves on symbolic numbers, bit for bit
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "kernels/math/number.h"
#include "tests/unit/catch.h"

namespace mt::test {
namespace {

using Words = std::vector<uint32_t>;
/// What was recorded: each entry makes its word of those before it. The first is the argument.
std::vector<std::function<uint32_t(const Words&)>> tape;

/// A float, its bits or a condition that is not there yet, but has a place on the tape.
template <class V> struct Recorded {
  using Value = V;
  size_t at;
  static Recorded next() { return Recorded(tape.size(), 0); }
  Recorded() = default;
  template <class C> explicit Recorded(C constant) : at(tape.size()) {
    tape.push_back([word = word_of(V(constant))](const Words&) { return word; });
  }
  static uint32_t word_of(V v) { return std::bit_cast<uint32_t>(v); }
  static V of_word(uint32_t w) { return std::bit_cast<V>(w); }

 private:
  Recorded(size_t place, int) : at(place) {}
};
template <> uint32_t Recorded<bool>::word_of(bool v) { return v; }
template <> bool Recorded<bool>::of_word(uint32_t w) { return w != 0; }
using Symbol = Recorded<float>;
using Bits = Recorded<uint32_t>;
using Mask = Recorded<bool>;

template <class R, class F, class... A> R record(F f, A... x) {
  const R result = R::next();
  tape.push_back([=](const Words& w) { return R::word_of(f(A::of_word(w[x.at])...)); });
  return result;
}

#define MT_BINARY(R, A, op)                                        \
  R operator op(A x, A y) {                                        \
    return record<R>([](auto a, auto b) { return a op b; }, x, y); \
  }
#define MT_SHIFT(op)                                            \
  Bits operator op(Bits x, int n) {                             \
    return record<Bits>([n](uint32_t a) { return a op n; }, x); \
  }
#define MT_CALL(name)                                                \
  Symbol name(Symbol x) {                                            \
    return record<Symbol>([](float a) { return math::name(a); }, x); \
  }
MT_BINARY(Symbol, Symbol, +)
MT_BINARY(Symbol, Symbol, -)
MT_BINARY(Symbol, Symbol, *)
MT_BINARY(Symbol, Symbol, /)
MT_BINARY(Mask, Symbol, <)
MT_BINARY(Mask, Symbol, >)
MT_BINARY(Mask, Symbol, >=)
MT_BINARY(Mask, Symbol, ==)
MT_BINARY(Bits, Bits, +)
MT_BINARY(Bits, Bits, -)
MT_BINARY(Bits, Bits, &)
MT_BINARY(Bits, Bits, |)
MT_BINARY(Bits, Bits, ^)
MT_BINARY(Mask, Bits, !=)
MT_SHIFT(<<)
MT_SHIFT(>>)
MT_CALL(fabs)
MT_CALL(rint)
MT_CALL(sqrt)
Symbol operator-(Symbol x) {
  return record<Symbol>([](float a) { return -a; }, x);
}
Symbol copysign(Symbol x, Symbol y) {
  return record<Symbol>([](float a, float b) { return math::copysign(a, b); }, x, y);
}
Symbol fma(Symbol x, Symbol y, Symbol z) {
  return record<Symbol>([](float a, float b, float c) { return math::fma(a, b, c); }, x, y, z);
}
Symbol fused(Symbol x, Symbol y, Symbol z) {  // of its own, because here an fma may round twice
  return record<Symbol>([](float a, float b, float c) { return math::core::fused(a, b, c); }, x, y,
                        z);
}
template <class V> Recorded<V> select(Mask m, Recorded<V> yes, Recorded<V> no) {
  return record<Recorded<V>>([](bool c, V a, V b) { return c ? a : b; }, m, yes, no);
}
Bits to_bits(Symbol x) {
  return record<Bits>([](float a) { return std::bit_cast<uint32_t>(a); }, x);
}
template <class T> T from_bits(Bits x) {
  return record<T>([](uint32_t a) { return std::bit_cast<float>(a); }, x);
}

}  // namespace
}  // namespace mt::test

template <> inline constexpr bool mt::math::is_symbolic<mt::test::Symbol> = true;
template <> struct mt::math::core::Real<mt::test::Symbol> : Real<float> {
  using Bits = mt::test::Bits;
};

namespace mt::test {
namespace {

struct Formula {
  const char* name;
  float (*number)(float);
  Symbol (*symbol)(Symbol);
};
#define MT_FORMULA(name) \
  {#name, [](float x) { return math::name(x); }, [](Symbol x) { return math::name(x); }},
const Formula kFormulas[] = {
    MT_FORMULA(exp) MT_FORMULA(exp2) MT_FORMULA(expm1) MT_FORMULA(log) MT_FORMULA(log2)
        MT_FORMULA(log10) MT_FORMULA(log1p) MT_FORMULA(tanh) MT_FORMULA(erf) MT_FORMULA(sigmoid)
            MT_FORMULA(silu) MT_FORMULA(softplus) MT_FORMULA(gelu) MT_FORMULA(ndtr) MT_FORMULA(abs)
                MT_FORMULA(round) MT_FORMULA(core::near_sin) MT_FORMULA(core::near_cos)
                    MT_FORMULA(core::near_tan) MT_FORMULA(asin) MT_FORMULA(acos) MT_FORMULA(atan)
                        MT_FORMULA(erfc) MT_FORMULA(core::exp_minus) MT_FORMULA(core::log1p_unit)};

std::vector<float> arguments() {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> v = {0,   1,      0.5f,     2,      1e-45f,  1e-40f, 1.17549435e-38f,
                          inf, 1e-20f, 3e38f,    88.7f,  88.8f,   89,     103.9f,
                          104, 105,    0.5625f,  14.5f,  0.75f,   3.92f,  4,
                          10,  16384,  0.41422f, 1e-8f,  1.5708f, 150,    151,
                          30,  109,    126.5f,   126.0f, 127,     128};
  for (size_t i = v.size(); i-- > 0;) v.push_back(-v[i]);
  v.push_back(std::numeric_limits<float>::quiet_NaN());
  std::mt19937 random(7);
  for (int i = 0; i < 4000; ++i) {
    v.push_back(std::bit_cast<float>(uint32_t(random())));
    v.push_back(float(int32_t(random())) * 0x1p-27f);  // -16 to 16
  }
  return v;
}

}  // namespace

TEST_CASE("a formula recorded once computes every argument's bits", "[symbolic]") {
  for (const Formula& f : kFormulas) {
    tape.clear();
    const Symbol x(0), y = f.symbol(x);
    REQUIRE(y.at > x.at);
    Words words(tape.size());
    for (const float argument : arguments()) {
      words[0] = std::bit_cast<uint32_t>(argument);
      for (size_t i = 1; i < tape.size(); ++i) words[i] = tape[i](words);
      const float expected = f.number(argument), found = std::bit_cast<float>(words[y.at]);
      INFO(f.name << " of " << argument << " is " << expected << ", recorded " << found);
      REQUIRE(((std::isnan(expected) && std::isnan(found)) ||
               std::bit_cast<uint32_t>(expected) == words[y.at]));
    }
  }
}

}  // namespace mt::test
