// random.h -- random tensors
#pragma once
#include "engine/core/tensor.h"

namespace mt {

class Generator;  // generator.h

// Where a generator can be named, null means the stream of manual_seed.

/// Restarts the default stream, which all threads share: the numbers of mt.manual_seed in Lua and on a
/// GPU. Without it every run has the same ones; default_generator().seed() draws a seed. A thread that
/// sets generator_of_thread() has a stream of its own.
void manual_seed(uint64_t seed);
/// Uniform in [0, 1).
Tensor rand(const Shape&, Dtype = default_dtype(), const Device& = cpu_device(),
            Generator* = nullptr);
/// Normal, mean 0 and deviation 1.
Tensor randn(const Shape&, Dtype = default_dtype(), const Device& = cpu_device(),
             Generator* = nullptr);
/// Whole numbers from low to high, both included.
Tensor randint(int64_t low, int64_t high, const Shape&, Dtype = Dtype::i64,
               const Device& = cpu_device(), Generator* = nullptr);
/// A random order of 0 .. n-1.
Tensor randperm(int64_t n, const Device& = cpu_device(), Generator* = nullptr);
/// Normal numbers with these means and deviations, which broadcast.
Tensor normal(const Tensor& mean, const Tensor& deviation, Generator* = nullptr);
/// 1 with the probability that p has there, else 0; of p's dtype.
Tensor bernoulli(const Tensor& p, Generator* = nullptr);
/// n positions drawn by the weights in each row (1-d or 2-d), 0-based.
Tensor multinomial(const Tensor& weights, int64_t n, bool replacement = false,
                   Generator* = nullptr);

// ---- in place ----

/// Normal numbers.
const Tensor& normal_(const Tensor& x, double mean, double deviation, Generator* = nullptr);
/// Uniform in [low, high).
const Tensor& uniform_(const Tensor& x, double low, double high, Generator* = nullptr);
/// 1 with the probability that p, which broadcasts, has there, else 0.
const Tensor& bernoulli_(const Tensor& x, const Tensor& p, Generator* = nullptr);
/// With density rate * exp(-rate * x).
const Tensor& exponential_(const Tensor& x, double rate, Generator* = nullptr);
/// Whole numbers from low to high, both included.
const Tensor& random_(const Tensor& x, int64_t low, int64_t high, Generator* = nullptr);
/// The largest whole number up to which every one is exact in the dtype.
int64_t largest_whole(Dtype);

}  // namespace mt
