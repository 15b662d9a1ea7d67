// grid_sample.h -- images sampled at arbitrary points: grid_sample and affine grids
#pragma once
#include <array>

#include "engine/core/tensor.h"

namespace mt {

enum class Sampling { nearest, linear, cubic };
constexpr std::array<const char*, 3> names_of(Sampling) {
  return {"nearest", "bilinear", "bicubic"};
}
/// The padding of an image: zeros, its border, its reflection.
enum class Beyond { zeros, border, reflection };
constexpr std::array<const char*, 3> names_of(Beyond) { return {"zeros", "border", "reflection"}; }
/// Samples x (n, c, [d,] h, w) at the points of grid (n, [d',] h', w', 2 or 3), whose x, y[, z] are
/// in -1..1: between the centres of the outermost pixels with `corners`, otherwise between their
/// outer edges. As torch.nn.functional.grid_sample.
Tensor grid_sample(const Tensor& x, const Tensor& grid, Sampling = Sampling::linear,
                   Beyond = Beyond::zeros, bool corners = false);
/// The sampling grid for an image of `size` (n, c, [d,] h, w) and maps theta (n, 2 x 3 or 3 x 4).
Tensor affine_grid(const Tensor& theta, const Shape& size, bool corners = false);

}  // namespace mt
