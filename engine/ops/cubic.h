// cubic.h -- the kernel of bicubic interpolation
#pragma once

namespace mt {

/// The weight of tap 0 .. 3 (Keys 1981, a = -0.75), at distances 1 + t, t, 1 - t and 2 - t.
template <class T> T cubic_weight(const T& t, int tap) {
  constexpr double a = -0.75;
  const auto near = [](const T& x) { return (x * (a + 2) - (a + 3)) * x * x + 1.0; };
  const auto far = [](const T& x) { return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a; };
  return tap == 0 ? far(t + 1.0) : tap == 1 ? near(t) : tap == 2 ? near(1.0 - t) : far(2.0 - t);
}

}  // namespace mt
