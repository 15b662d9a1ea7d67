// generator.cpp -- streams of random numbers: Philox counters, and the MT19937 of PyTorch's CPU
#include "engine/ops/generator.h"

#include <bit>
#include <cmath>
#include <locale>
#include <sstream>

#include "engine/core/device.h"
#include "engine/core/dtype.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/math/random.h"

namespace mt {
constexpr uint64_t kWide = uint64_t(1) << 28;    // from this span on PyTorch draws two words
constexpr uint64_t kFirstSeed = 0x6d746f726368;  // the default seed: every run has the same numbers

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
  seed_ = seed, counter_ = 0, has_normal_ = false;
  if (kind_ == Kind::mt19937) words_.emplace(uint32_t(seed));
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
  std::ostringstream text;
  text.imbue(std::locale::classic());  // the global one may group digits
  text << "mt19937 " << seed_ << ' ' << has_normal_ << ' ' << std::bit_cast<uint64_t>(normal_)
       << ' ' << *words_;
  return text.str();
}

void Generator::set_state(std::string_view text) {
  const std::string_view name = kind_ == Kind::philox ? "philox " : "mt19937 ";
  if (text.substr(0, name.size()) != name)
    fail("set_state: the state of a {} generator begins with '{}'", name.substr(0, name.size() - 1),
         name);
  text.remove_prefix(name.size());
  std::istringstream in{std::string(text)};
  in.imbue(std::locale::classic());
  uint64_t seed, counter = 0, has_normal = 0, normal = 0;
  std::optional<std::mt19937> words;
  in >> seed;
  if (kind_ == Kind::philox) in >> counter;
  else in >> has_normal >> normal >> words.emplace();
  if (!in || has_normal > 1 || text.find('-') != text.npos || !(in >> std::ws).eof())
    fail("set_state: this is not a state that get_state returned");
  std::lock_guard lock(guard_);
  seed_ = seed, counter_ = counter, words_ = words;
  has_normal_ = has_normal, normal_ = std::bit_cast<double>(normal);
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
