// statistics.h -- moments, norms, and counts of values
#pragma once

#include "engine/ops/reduce.h"

namespace mt {

/// The variance sum((x - mean)^2) / max(0, n - correction), and the mean.
struct VarMean {
  Tensor variance, mean;
};
VarMean var_mean(const Tensor&, const Shape& dims = {}, double correction = 1,
                 bool keepdim = false);
/// The variance alone.
Tensor var(const Tensor&, const Shape& dims = {}, double correction = 1, bool keepdim = false);
/// The root of the variance; where it is 0 the gradient is 0.
Tensor standard_deviation(const Tensor&, const Shape& dims = {}, double correction = 1,
                          bool keepdim = false);
/// The same of a variance that is known.
Tensor root_of_variance(const Tensor& variance);
/// The covariances of the rows (variables) over the columns (observations): [n x m] gives [n x n],
/// one row a number. `times`, integers, repeats an observation, `weight` counts it for more or less.
Tensor cov(const Tensor&, double correction = 1, const Tensor& times = {},
           const Tensor& weight = {});
/// The correlations of the rows, held in -1..1.
Tensor corrcoef(const Tensor&);
/// sum(|x|^p)^(1/p); p = 0 counts what is not 0, infinity and -infinity are the extreme magnitudes.
Tensor norm(const Tensor&, double p = 2, const Shape& dims = {}, bool keepdim = false);
/// The parts along a dimension scaled to a p-norm of at most `most`, those that have more.
Tensor renorm(const Tensor&, double p, int64_t dim, double most);
/// The mean without NaNs.
Tensor nanmean(const Tensor&, const Shape& dims = {}, bool keepdim = false);
/// How often each of the values `first`, first + 1, .. stands in a 1-d integer tensor, or the sum of
/// the weights there; at least `least` answers.
Tensor bincount(const Tensor&, const Tensor& weights = {}, int64_t least = 0, int64_t first = 0);
/// How many elements lie in each of `bins` equal parts of low..high; both 0: of the data's range.
Tensor histc(const Tensor&, int64_t bins = 100, double low = 0, double high = 0);

/// How many elements, or which sum of weights, lie in each part between sorted edges (the last one
/// closed), and the edges; `density`: over their sum and the widths. Without edges `bins` equal parts
/// of the range, by default the data's.
struct Histogram {
  Tensor counts, edges;
};
Histogram histogram(const Tensor&, const Tensor& edges, const Tensor& weight = {},
                    bool density = false);
Histogram histogram(const Tensor&, int64_t bins, const double* range = nullptr,
                    const Tensor& weight = {}, bool density = false);

}  // namespace mt
