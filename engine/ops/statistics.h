// statistics.h -- moments, norms and counts of values
#pragma once
#include <vector>

#include "engine/ops/reduce.h"

namespace mt {

/// The variance sum((x - mean)^2) / max(0, n - correction), and the mean.
struct VarMean {
  Tensor variance, mean;
};
VarMean var_mean(const Tensor&, const Shape& dims = {}, double correction = 1,
                 bool keepdim = false);
/// Only the variance.
Tensor var(const Tensor&, const Shape& dims = {}, double correction = 1, bool keepdim = false);
/// The standard deviation; its gradient is 0 where it is 0.
Tensor standard_deviation(const Tensor&, const Shape& dims = {}, double correction = 1,
                          bool keepdim = false);
/// The standard deviation for a given variance.
Tensor root_of_variance(const Tensor& variance);
/// The covariances of the rows (variables) over the columns (observations): [n x m] gives [n x n];
/// for one row a number. `times`, integers, repeats observations; `weight` weights them.
Tensor cov(const Tensor&, double correction = 1, const Tensor& times = {},
           const Tensor& weight = {});
/// The correlations of the rows, clamped to -1..1.
Tensor corrcoef(const Tensor&);
/// sum(|x|^p)^(1/p); p = 0 counts nonzeros, +-infinity is the largest or smallest magnitude.
Tensor norm(const Tensor&, double p = 2, const Shape& dims = {}, bool keepdim = false);
/// Scales the slices along a dimension whose p-norm exceeds `maxnorm` to that norm.
Tensor renorm(const Tensor&, double p, int64_t dim, double maxnorm);
/// The mean, ignoring NaNs.
Tensor nanmean(const Tensor&, const Shape& dims = {}, bool keepdim = false);
/// The number of occurrences of each value `first`, first + 1, .. in a 1-d integer tensor, or the
/// sum of their weights; at least `min_bins` results.
Tensor bincount(const Tensor&, const Tensor& weights = {}, int64_t min_bins = 0, int64_t first = 0);
/// The number of elements in each of `bins` equal parts of low..high; both 0: of the data's range.
Tensor histc(const Tensor&, int64_t bins = 100, double low = 0, double high = 0);

/// The number of elements, or the sum of weights, in each bin between sorted edges (the last bin is
/// closed), and the edges; `density`: divided by the total and the widths. Without edges there are
/// `bins` equal bins over the range, by default the data's.
struct Histogram {
  Tensor counts, edges;
};
Histogram histogram(const Tensor&, const Tensor& edges, const Tensor& weight = {},
                    bool density = false);
Histogram histogram(const Tensor&, int64_t bins, const double* range = nullptr,
                    const Tensor& weight = {}, bool density = false);

}  // namespace mt
