// test_half.cpp -- the 16-bit and 8-bit floats: every pattern to float32 and back, rounding, the types they make
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/ops/create.h"
#include "engine/ops/ops.h"
#include "kernels/math/reduced_floats.h"
#include "tests/unit/catch.h"

using namespace mt;

namespace {

/// What a pattern stands for, by its fields.
double value_of(uint32_t h, int mantissa_bits, int bias) {
  const int exponent_bits = 15 - mantissa_bits;
  const int e = int(h >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int m = int(h) & ((1 << mantissa_bits) - 1);
  const double sign = h >> 15 ? -1 : 1;
  if (e == (1 << exponent_bits) - 1) return m ? NAN : sign * INFINITY;
  const double fraction = std::ldexp(double(m), -mantissa_bits);
  return sign * (e ? std::ldexp(1 + fraction, e - bias) : std::ldexp(fraction, 1 - bias));
}

struct Kind {
  int mantissa, bias;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
};
const Kind kKinds[] = {
    {10, 15, [](uint16_t h) { return float_of_f16(h); }, [](float x) { return f16_of_float(x); }},
    {7, 127, [](uint16_t h) { return float_of_bf16(h); },
     [](float x) { return bf16_of_float(x); }}};

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

TEST_CASE("every 16-bit pattern is the float of its fields, and comes back", "[half]") {
  for (const Kind& k : kKinds)
    for (uint32_t h = 0; h < 65536; ++h) {
      const double expected = value_of(h, k.mantissa, k.bias);
      const float found = k.widen(uint16_t(h));
      if (std::isnan(expected)) {
        REQUIRE(std::isnan(found));
        REQUIRE(std::isnan(k.widen(k.narrow(found))));
        continue;
      }
      REQUIRE(same_bits(found, float(expected)));
      REQUIRE(k.narrow(found) == h);
    }
}

TEST_CASE("a float between two 16-bit floats becomes the nearer, the middle the even one",
          "[half]") {
  for (const Kind& k : kKinds) {
    const uint32_t infinity = ((1u << (15 - k.mantissa)) - 1) << k.mantissa;
    for (uint32_t h = 0; h < infinity; ++h) {
      // Above the largest number lies the one that infinity would be.
      const double low = value_of(h, k.mantissa, k.bias);
      const double high = h + 1 < infinity ? value_of(h + 1, k.mantissa, k.bias)
                                           : 2 * low - value_of(h - 1, k.mantissa, k.bias);
      const float middle = float(low + (high - low) / 2);
      const uint32_t even = h % 2 ? h + 1 : h;
      REQUIRE(k.narrow(middle) == even);
      REQUIRE(k.narrow(-middle) == (even | 0x8000));
      REQUIRE(k.narrow(std::nextafter(middle, INFINITY)) == h + 1);
      REQUIRE(k.narrow(std::nextafter(middle, 0.0f)) == h);
    }
    REQUIRE(k.narrow(INFINITY) == infinity);
    REQUIRE(k.narrow(-INFINITY) == (infinity | 0x8000));
    REQUIRE(k.narrow(3e38f) == (k.mantissa == 10 ? infinity : k.narrow(k.widen(k.narrow(3e38f)))));
    REQUIRE(k.narrow(1e-45f) == 0);
    REQUIRE(k.narrow(-0.0f) == 0x8000);
  }
}

TEST_CASE("the kernels convert every pattern as the scalar functions do", "[half]") {
  std::vector<uint16_t> all(65536);
  for (size_t h = 0; h < all.size(); ++h) all[h] = uint16_t(h);
  const std::string_view bytes(reinterpret_cast<const char*>(all.data()), all.size() * 2);
  const Dtype dtypes[] = {Dtype::f16, Dtype::bf16};
  for (int i = 0; i < 2; ++i) {
    const Tensor x = from_bytes(bytes, dtypes[i], nullptr);
    const Tensor wide = to(x, Dtype::f32), back = to(wide, dtypes[i]), sum = x + x;
    for (uint32_t h = 0; h < 65536; ++h) {
      const float expected = kKinds[i].widen(uint16_t(h)), found = wide.data_as<float>()[h];
      if (std::isnan(expected)) {
        REQUIRE(std::isnan(found));
        continue;
      }
      REQUIRE(same_bits(found, expected));
      REQUIRE(back.data_as<uint16_t>()[h] == h);
      REQUIRE(sum.data_as<uint16_t>()[h] == kKinds[i].narrow(expected + expected));
    }
  }
}

TEST_CASE("16-bit floats and other types promote as in PyTorch", "[half]") {
  for (Dtype h : {Dtype::f16, Dtype::bf16}) {
    for (Dtype d : {Dtype::b8, Dtype::u8, Dtype::i32, Dtype::i64, Dtype::none}) {
      CHECK(promote(h, d) == h);
      CHECK(promote(d, h) == h);
    }
    for (Dtype d : {Dtype::f32, Dtype::f64}) {
      CHECK(promote(h, d) == d);
      CHECK(promote(d, h) == d);
    }
    CHECK(promote(h, h) == h);
    CHECK(item_size(h) == 2);
    CHECK(is_float(h));
    CHECK(dtype_named(dtype_name(h)) == h);
  }
  CHECK(promote(Dtype::f16, Dtype::bf16) == Dtype::f32);
  CHECK(promote(Dtype::bf16, Dtype::f16) == Dtype::f32);
}

namespace {

/// The number of an 8-bit pattern. A `finite` format has one NaN per sign and no infinity.
double value_of_8_bits(uint32_t code, int mantissa_bits, bool finite) {
  const int exponent_bits = 7 - mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int e = int(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int m = int(code) & ((1 << mantissa_bits) - 1);
  const double sign = code >> 7 ? -1 : 1;
  if (finite ? (code & 0x7f) == 0x7f : e == (1 << exponent_bits) - 1)
    return m ? NAN : sign * INFINITY;
  const double fraction = std::ldexp(double(m), -mantissa_bits);
  return sign * (e ? std::ldexp(1 + fraction, e - bias) : std::ldexp(fraction, 1 - bias));
}

template <class F> uint32_t bits_of(float x) { return F(x).bits; }
template <class F> float number_of(uint32_t code) {
  F x;
  x.bits = uint8_t(code);
  return x;
}

template <class F> void check_float8(Dtype dtype, int mantissa, bool finite) {
  const auto value = [&](uint32_t code) { return value_of_8_bits(code, mantissa, finite); };
  std::string bytes;
  for (uint32_t code = 0; code < 256; ++code) {
    bytes += char(code);
    const double expected = value(code);
    const float found = number_of<F>(code);
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(found));
      REQUIRE(bits_of<F>(found) == (code | 0x7f));
      continue;
    }
    REQUIRE(same_bits(found, float(expected)));
    REQUIRE(bits_of<F>(found) == code);
  }
  // Between two numbers; above the largest lies the one that NaN or infinity would be.
  const uint32_t end = finite ? 0x7f : 0x7c;
  for (uint32_t code = 0; code < end; ++code) {
    const double low = value(code);
    const double high = code + 1 < end ? value(code + 1) : 2 * low - value(code - 1);
    const float middle = float(low + (high - low) / 2);
    const uint32_t even = code % 2 ? code + 1 : code;
    REQUIRE(bits_of<F>(middle) == even);
    REQUIRE(bits_of<F>(-middle) == (even | 0x80));
    REQUIRE(bits_of<F>(std::nextafter(middle, INFINITY)) == code + 1);
    REQUIRE(bits_of<F>(std::nextafter(middle, 0.0f)) == code);
  }
  for (const float big : {3e38f, INFINITY}) {
    CHECK(bits_of<F>(big) == end);
    CHECK(bits_of<F>(-big) == (end | 0x80));
  }
  CHECK(bits_of<F>(1e-45f) == 0);
  CHECK(bits_of<F>(-0.0f) == 0x80);
  CHECK(F::kLargest == value(end - 1));
  CHECK((item_size(dtype) == 1 && is_float(dtype) && !is_half(dtype)));
  // The kernels.
  const Tensor x = from_bytes(bytes, dtype, nullptr), wide = to(x, Dtype::f32),
               back = to(wide, dtype), sum = x + x;
  for (uint32_t code = 0; code < 256; ++code) {
    const float one = number_of<F>(code);
    if (std::isnan(one)) {
      REQUIRE(std::isnan(wide.data_as<float>()[code]));
      continue;
    }
    REQUIRE(same_bits(wide.data_as<float>()[code], one));
    REQUIRE(back.data_as<uint8_t>()[code] == code);
    REQUIRE(sum.data_as<uint8_t>()[code] == bits_of<F>(one + one));
  }
}

}  // namespace

TEST_CASE("every 8-bit pattern is the float of its fields, and floats are rounded to the nearest",
          "[half]") {
  check_float8<Float8E4M3fn>(Dtype::f8_e4m3fn, 3, true);
  check_float8<Float8E5M2>(Dtype::f8_e5m2, 2, false);
}
