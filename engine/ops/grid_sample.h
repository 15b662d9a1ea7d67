// grid_sample.h -- images read at any points: grid_sample and the grids of affine maps
#pragma once
#include <array>

#include "engine/core/tensor.h"

namespace mt {

enum class Sampling { nearest, linear, cubic };
constexpr std::array<const char*, 3> names_of(Sampling) {
  return {"nearest", "bilinear", "bicubic"};
}
/// What lies beyond an image: zeros, its border, its mirror image.
enum class Beyond { zeros, border, reflection };
constexpr std::array<const char*, 3> names_of(Beyond) { return {"zeros", "border", "reflection"}; }
/// x (n, c, [d,] h, w) at the points of grid (n, [d',] h', w', 2 or 3), whose x, y[, z] run from -1
/// to 1: between the outermost pixels' centres with `corners`, else between their outer edges.
/// As torch.nn.functional.grid_sample.
Tensor grid_sample(const Tensor& x, const Tensor& grid, Sampling = Sampling::linear,
                   Beyond = Beyond::zeros, bool corners = false);
/// The points of an image of `size` (n, c, [d,] h, w) under the maps theta (n, 2 x 3 or 3 x 4).
Tensor affine_grid(const Tensor& theta, const Shape& size, bool corners = false);

}  // namespace mt
