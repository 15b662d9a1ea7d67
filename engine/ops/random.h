// random.h -- random tensors
#pragma once
#include "engine/core/tensor.h"

namespace mt {

class Generator;  // generator.h

// Where a function takes a generator, null selects the stream of manual_seed.

/// Restarts the default stream, which all threads share and which mt.manual_seed in Lua and GPUs
/// also use. Without a call every run has the same numbers; default_generator().seed() draws a
/// seed. A thread that sets generator_of_thread() has its own stream.
void manual_seed(uint64_t seed);
/// Uniform numbers in [0, 1).
Tensor rand(const Shape&, Dtype = default_dtype(), const Device& = cpu_device(),
            Generator* = nullptr);
/// Normal numbers with mean 0 and standard deviation 1.
Tensor randn(const Shape&, Dtype = default_dtype(), const Device& = cpu_device(),
             Generator* = nullptr);
/// Integers from low to high, both included.
Tensor randint(int64_t low, int64_t high, const Shape&, Dtype = Dtype::i64,
               const Device& = cpu_device(), Generator* = nullptr);
/// A random permutation of 0 .. n-1.
Tensor randperm(int64_t n, const Device& = cpu_device(), Generator* = nullptr);
/// Normal numbers with these means and standard deviations, which broadcast.
Tensor normal(const Tensor& mean, const Tensor& deviation, Generator* = nullptr);
/// 1 with the probability in p, otherwise 0; the dtype is p's.
Tensor bernoulli(const Tensor& p, Generator* = nullptr);
/// n 0-based positions drawn with the weights of each row (1-d or 2-d).
Tensor multinomial(const Tensor& weights, int64_t n, bool replacement = false,
                   Generator* = nullptr);

// ---- in place ----

/// Normal numbers.
const Tensor& normal_(const Tensor& x, double mean, double deviation, Generator* = nullptr);
/// Uniform numbers in [low, high).
const Tensor& uniform_(const Tensor& x, double low, double high, Generator* = nullptr);
/// 1 with the probability in p, which broadcasts, otherwise 0.
const Tensor& bernoulli_(const Tensor& x, const Tensor& p, Generator* = nullptr);
/// Exponential numbers with density rate * exp(-rate * x).
const Tensor& exponential_(const Tensor& x, double rate, Generator* = nullptr);
/// Integers from low to high, both included.
const Tensor& random_(const Tensor& x, int64_t low, int64_t high, Generator* = nullptr);

}  // namespace mt
