// split.cpp -- an epoch of step_split (whole_networks.lua) as plain loops: 2 - HIDDEN - HIDDEN - 1, 50 points, SGD
//
// bench.lua compiles it by g++ -O3 -march=native with -DHIDDEN=n -DCALL=name. Loops are left to the compiler.
#include <cmath>
#include <cstdint>

namespace {
constexpr int H = HIDDEN, B = 10, N = 50;
constexpr float rate = 0.05f;
float X[N][2], Y[N], W1[2][H], b1[H], W2[H][H], T[H][H], b2[H], W3[H], b3;
float h1[B][H], h2[B][H], g1[B][H], g2[B][H];

std::uint64_t state = 88172645463325252ull;
float uniform() {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return float(state >> 40) * 0x1p-24f;
}

void start() {
  const float width = 1 / std::sqrt(float(H));
  for (int i = 0; i < N; ++i) X[i][0] = uniform(), X[i][1] = uniform(), Y[i] = X[i][0] < 0.2f;
  for (int j = 0; j < H; ++j) W1[0][j] = uniform() - 0.5f, W1[1][j] = uniform() - 0.5f;
  for (auto& row : W2)
    for (float& w : row) w = (uniform() - 0.5f) * width;
  for (float& w : W3) w = (uniform() - 0.5f) * width;
}

void forward(int first, float* out) {
  for (int b = 0; b < B; ++b) {
    float sum[H];
    for (int j = 0; j < H; ++j) {
      const float v = b1[j] + X[first + b][0] * W1[0][j] + X[first + b][1] * W1[1][j];
      h1[b][j] = v > 0 ? v : 0;
      sum[j] = b2[j];
    }
    for (int k = 0; k < H; ++k)
      for (int j = 0; j < H; ++j) sum[j] += h1[b][k] * W2[k][j];
    float o = b3;
    for (int j = 0; j < H; ++j) h2[b][j] = sum[j] > 0 ? sum[j] : 0, o += h2[b][j] * W3[j];
    out[b] = (1 / (1 + std::exp(-o)) - Y[first + b]) / B; // the gradient of the loss for o
  }
}

void backward(int first, const float* out) {
  for (int j = 0; j < H; ++j)
    for (int k = 0; k < H; ++k) T[j][k] = W2[k][j];
  for (int b = 0; b < B; ++b) {
    float sum[H] = {};
    for (int j = 0; j < H; ++j) g2[b][j] = h2[b][j] > 0 ? out[b] * W3[j] : 0;
    for (int j = 0; j < H; ++j)
      for (int k = 0; k < H; ++k) sum[k] += g2[b][j] * T[j][k];
    for (int k = 0; k < H; ++k) g1[b][k] = h1[b][k] > 0 ? sum[k] : 0;
  }
  for (int k = 0; k < H; ++k) {
    float sum[H] = {};
    for (int b = 0; b < B; ++b)
      for (int j = 0; j < H; ++j) sum[j] += h1[b][k] * g2[b][j];
    for (int j = 0; j < H; ++j) W2[k][j] -= rate * sum[j];
  }
  for (int b = 0; b < B; ++b) {
    for (int j = 0; j < H; ++j) {
      b2[j] -= rate * g2[b][j], b1[j] -= rate * g1[b][j], W3[j] -= rate * out[b] * h2[b][j];
      W1[0][j] -= rate * X[first + b][0] * g1[b][j], W1[1][j] -= rate * X[first + b][1] * g1[b][j];
    }
    b3 -= rate * out[b];
  }
}
}  // namespace

extern "C" void CALL() {
  static const bool started = (start(), true);
  (void)started;
  float out[B];
  for (int first = 0; first < N; first += B) forward(first, out), backward(first, out);
}
