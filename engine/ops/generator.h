// generator.h -- streams of random numbers: Philox counters, and the MT19937 of PyTorch's CPU
#pragma once
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "kernels/device.h"

namespace mt {

/// A stream of random numbers. Philox gives the same numbers on every device; mt19937 (Matsumoto
/// and Nishimura 1998) gives those of PyTorch's CPU generator, drawn sequentially on the CPU.
class Generator {
 public:
  enum class Kind { philox, mt19937 };
  explicit Generator(Kind kind, uint64_t seed) : kind_(kind) { manual_seed(seed); }
  Generator(const Generator&) = delete;

  Kind kind() const { return kind_; }
  uint64_t initial_seed() const { return seed_; }
  /// Restarts the stream with a seed.
  void manual_seed(uint64_t seed);
  /// Restarts the stream with a random seed below 2^53, and returns it.
  uint64_t seed();
  /// The position of the stream as text, from which `set_state` resumes exactly.
  std::string state() const;
  void set_state(std::string_view);
  /// The number of Philox counters used so far.
  uint64_t counter() const { return counter_; }
  void set_counter(uint64_t n) { counter_ = n; }
  /// Draws r.n elements into r.out. With mt19937 this must be CPU memory.
  void fill(Random r, const Device&);
  /// The next 32 bits of an mt19937 stream.
  uint32_t word() { return uint32_t((*words_)()); }

 private:
  uint64_t wide() {
    const uint64_t high = word();
    return high << 32 | word();
  }
  template <class T> T uniform();
  template <class T> void fill_as(const Random&);
  template <class T> void uniforms(T* out, int64_t n);
  template <class T> void normals(T* out, int64_t n);

  const Kind kind_;
  mutable std::mutex guard_;
  uint64_t seed_ = 0, counter_ = 0;
  std::optional<std::mt19937> words_;  // none for Philox: seeding takes a microsecond
  bool has_normal_ = false;            // the second of the last pair of normals is kept
  double normal_ = 0;
};

/// The stream of manual_seed, the default where no other generator is given.
Generator& default_generator();
/// If set, this is the thread's default_generator(). Code that sets it must restore the old value.
Generator*& generator_of_thread();

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014): each result bit depends on all of x.
inline uint64_t mix_bits(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace mt
