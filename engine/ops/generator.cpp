// generator.cpp -- streams of random numbers: Philox counters, and the MT19937 of PyTorch's CPU
#include "engine/ops/generator.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <random>

#include "engine/core/device.h"
#include "engine/core/dtype.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/math/random.h"

namespace mt {
namespace {

constexpr int kWords = 624, kMiddle = 397;
constexpr uint64_t kWide = uint64_t(1) << 28;    // from this span on PyTorch draws two words
constexpr uint64_t kFirstSeed = 0x6d746f726368;  // the default seed: every run has the same numbers

/// Parses and removes one number at the front of `text`.
uint64_t parse_number(std::string_view& text, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc()) fail("set_state: this is not a state that get_state returned");
  text.remove_prefix(end - text.data());
  if (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  return value;
}

}  // namespace

Generator*& generator_of_thread() {
  static constinit thread_local Generator* own = nullptr;
  return own;
}

Generator& default_generator() {
  if (Generator* own = generator_of_thread()) return *own;
  static Generator generator(Generator::Kind::philox, kFirstSeed);
  return generator;
}

void Generator::manual_seed(uint64_t seed) {
  std::lock_guard lock(guard_);
  seed_ = seed, counter_ = 0, has_normal_ = false, next_ = kWords;
  if (kind_ == Kind::philox) return;
  state_[0] = uint32_t(seed);
  for (int i = 1; i < kWords; ++i)
    state_[i] = 1812433253u * (state_[i - 1] ^ state_[i - 1] >> 30) + uint32_t(i);
}

uint64_t Generator::seed() {
  std::random_device source;
  const uint64_t seed = (uint64_t(source()) << 32 | source()) >> 11;
  manual_seed(seed);
  return seed;
}

std::string Generator::state() const {
  std::lock_guard lock(guard_);
  if (kind_ == Kind::philox) return fmt::format("philox {} {}", seed_, counter_);
  uint64_t normal;
  std::memcpy(&normal, &normal_, sizeof normal);
  std::string text = fmt::format("mt19937 {} {} {} {:x}", seed_, next_, int(has_normal_), normal);
  for (uint32_t w : state_) text += fmt::format(" {:x}", w);
  return text;
}

void Generator::set_state(std::string_view text) {
  const std::string_view name = kind_ == Kind::philox ? "philox " : "mt19937 ";
  if (text.substr(0, name.size()) != name)
    fail("set_state: the state of a {} generator begins with '{}'", name.substr(0, name.size() - 1),
         name);
  text.remove_prefix(name.size());
  const uint64_t seed = parse_number(text, 10), position = parse_number(text, 10);
  if (kind_ == Kind::philox) {
    if (!text.empty()) fail("set_state: this is not a state that get_state returned");
    std::lock_guard lock(guard_);
    seed_ = seed, counter_ = position;
    return;
  }
  const uint64_t has_normal = parse_number(text, 10), bits = parse_number(text, 16);
  uint32_t words[kWords];
  for (uint32_t& w : words) w = uint32_t(parse_number(text, 16));
  if (position > kWords || has_normal > 1 || !text.empty())
    fail("set_state: this is not a state that get_state returned");
  std::lock_guard lock(guard_);
  seed_ = seed, next_ = int(position), has_normal_ = has_normal;
  std::memcpy(&normal_, &bits, sizeof normal_);
  std::memcpy(state_, words, sizeof state_);
}

void Generator::twist() {
  for (int k = 0; k < kWords; ++k) {
    const uint32_t y = (state_[k] & 0x80000000u) | (state_[(k + 1) % kWords] & 0x7fffffffu);
    state_[k] = state_[(k + kMiddle) % kWords] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
  }
  next_ = 0;
}

uint32_t Generator::word() {
  if (next_ >= kWords) twist();
  uint32_t y = state_[next_++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}

/// [0, 1): the low 24 bits of a word, or the low 53 of two.
template <> float Generator::uniform() { return float(word() & 0xffffff) * 0x1p-24f; }
template <> double Generator::uniform() {
  return double(wide() & ((uint64_t(1) << 53) - 1)) * 0x1p-53;
}

template <class T> void Generator::uniforms(T* out, int64_t n) {
  in_strips(n, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) out[i] = uniform<T>();
  });
}

/// As at::normal_fill: 16 uniforms become 8 cosines and 8 sines; for a tail of fewer than 16 the
/// last 16 elements are drawn again from new uniforms. Fewer than 16 in total are drawn in pairs of
/// doubles; the second of a pair may be kept for the next call.
template <class T> void Generator::normals(T* out, int64_t n) {
  if (n < 16) {
    for (int64_t i = 0; i < n; ++i) {
      if (has_normal_) {
        has_normal_ = false;
        out[i] = T(normal_);
        continue;
      }
      const double u = uniform<double>(), v = uniform<double>();
      const double radius = std::sqrt(-2 * std::log1p(-v)), angle = 2 * M_PI * u;
      has_normal_ = true;
      normal_ = radius * std::sin(angle);
      out[i] = T(radius * std::cos(angle));
    }
    return;
  }
  const auto sixteen = [](T* x) {
    for (int j = 0; j < 8; ++j) {
      const T radius = T(std::sqrt(T(-2) * T(std::log(double(1 - x[j])))));
      const double angle = double(T(2 * M_PI) * x[j + 8]);
      x[j] = T(radius * T(std::cos(angle)));
      x[j + 8] = T(radius * T(std::sin(angle)));
    }
  };
  uniforms(out, n);
  for (int64_t i = 0; i + 16 <= n && !mt_interrupted; i += 16) sixteen(out + i);
  if (n % 16 == 0) return;
  for (int64_t i = n - 16; i < n; ++i) out[i] = uniform<T>();
  sixteen(out + n - 16);
}

template <class T> void Generator::fill_as(const Random& r) {
  T* out = static_cast<T*>(r.out);
  if (r.what == Distribution::integer) {
    const bool narrow = r.span != 0 && r.span < kWide;
    in_strips(r.n, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const uint64_t drawn = narrow ? word() % r.span : r.span ? wide() % r.span : wide();
        out[i] = T(int64_t(uint64_t(r.low) + drawn));
      }
    });
  } else if constexpr (std::is_floating_point_v<T>) {
    if (r.what == Distribution::normal) return normals(out, r.n);
    uniforms(out, r.n);
  }
}

void Generator::fill(Random r, const Device& device) {
  std::unique_lock lock(guard_);
  if (kind_ == Kind::mt19937)
    return with_dtype(r.dtype, [&](auto zero) { fill_as<decltype(zero)>(r); });
  if (capturing == &device && this != &default_generator())
    fail(
        "while mt.cuda.graph records, random numbers come from the stream of manual_seed; leave the "
        "generator out");
  const int64_t group = random_group(r.what, r.dtype);
  r.seed = seed_, r.offset = counter_;
  counter_ += uint64_t((r.n + group - 1) / group);
  lock.unlock();
  device.random(r);
}

}  // namespace mt
