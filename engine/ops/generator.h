// generator.h -- streams of random numbers: Philox counters, and the MT19937 of PyTorch's CPU
#pragma once
#include <mutex>
#include <string>
#include <string_view>

#include "kernels/device.h"

namespace mt {

/// A stream of random numbers. Philox gives the same numbers on every device; mt19937 (Matsumoto
/// and Nishimura 1998) those of PyTorch's CPU generator, drawn on the CPU one after the other.
class Generator {
 public:
  enum class Kind { philox, mt19937 };
  explicit Generator(Kind kind, uint64_t seed) : kind_(kind) { manual_seed(seed); }
  Generator(const Generator&) = delete;

  Kind kind() const { return kind_; }
  uint64_t initial_seed() const { return seed_; }
  /// Restarts the stream.
  void manual_seed(uint64_t seed);
  /// Starts the stream at a random seed; returns it. Below 2^53.
  uint64_t seed();
  /// Where the stream stands, as text that `set_state` resumes exactly.
  std::string state() const;
  void set_state(std::string_view);
  /// How many counters of Philox were used.
  uint64_t counter() const { return counter_; }
  void set_counter(uint64_t n) { counter_ = n; }
  /// Draws r.n elements into r.out. With mt19937 that is memory of the CPU.
  void fill(Random r, const Device&);
  /// The next 32 bits of an mt19937 stream.
  uint32_t word();

 private:
  uint64_t wide() {
    const uint64_t high = word();
    return high << 32 | word();
  }
  template <class T> T uniform();
  template <class T> void fill_as(const Random&);
  template <class T> void uniforms(T* out, int64_t n);
  template <class T> void normals(T* out, int64_t n);
  void twist();

  const Kind kind_;
  mutable std::mutex guard_;
  uint64_t seed_ = 0, counter_ = 0;
  uint32_t state_[624] = {};
  int next_ = 624;
  bool has_normal_ = false;  // the second of the last pair of normals waits
  double normal_ = 0;
};

/// The stream of manual_seed, which everybody uses who names no other.
Generator& default_generator();
/// Where this is set, it is the thread's default_generator(). Whoever sets it puts back what was there.
Generator*& generator_of_thread();

}  // namespace mt
