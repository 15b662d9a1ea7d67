// stft.cpp -- short-time Fourier transforms, and their windows
#include "engine/ops/fft.h"
#include "engine/ops/ops.h"

namespace mt::fft {
namespace {

constexpr double kPi = 3.14159265358979324;

/// Checks the options, and returns the distance of frames and the window as n_fft numbers.
struct Framing {
  int64_t n, hop;
  Tensor window;
  Framing(const char* name, const Frames& f, const Tensor& x)
      : n(f.n_fft),
        hop(f.hop.value_or(std::max<int64_t>(n / 4, 1))) {
    const int64_t length = f.win_length.value_or(n), left = (n - length) / 2;
    if (n < 1) fail("{}: n_fft is {}, it must be at least 1", name, n);
    if (hop < 1) fail("{}: hop_length is {}, it must be at least 1", name, hop);
    if (length < 1 || length > n)
      fail("{}: win_length is {}, it must be from 1 to n_fft, {}", name, length, n);
    check_beside(name, "the window", f.window, x, {length});
    window = f.window.defined() ? to(f.window, x.dtype()) : ones({length}, x);
    if (length < n) window = pad(window, {left, n - length - left});
  }
};

/// The sum of frames [batch x frames x n], each `hop` after the one before: sums of blocks of `hop`.
Tensor overlap_add(const Tensor& frames, int64_t hop) {
  const int64_t batch = frames.size(0), count = frames.size(1), n = frames.size(2),
                blocks = (n + hop - 1) / hop;
  const Tensor x = reshape(pad(frames, {0, blocks * hop - n}), {batch, count, blocks, hop});
  Tensor sum;
  for (int64_t k = 0; k < blocks; ++k) {
    const Tensor later = pad(pick(x, 2, k), {0, 0, k, blocks - 1 - k});
    sum = k == 0 ? later : sum + later;
  }
  return slice(reshape(sum, {batch, -1}), 1, 0, n + hop * (count - 1));
}

/// n samples of f(x) for the phases x = 0 .. 2 pi, of which the last is left out if it is periodic.
Tensor window(const char* name, int64_t n, bool periodic, Dtype dtype, const auto& f) {
  if (n < 0) fail("{}: {} samples were requested", name, n);
  if (n < 2) return ones({n}, dtype);
  const double step = 2 * kPi / double(periodic ? n : n - 1);
  return to(f(range(0, double(n - 1), 1, Dtype::f64) * step), dtype);
}

}  // namespace

Tensor stft(const Tensor& given, const Frames& options, Padding padding) {
  if (given.dim() != 1 && given.dim() != 2)
    fail("stft: x is (samples) or (batch x samples), got {}", given.shape());
  check_float("stft", given);
  Tensor x = to(given, compute_dtype(given.dtype()));
  const Framing f("stft", options, x);
  if (given.dim() == 1) x = unsqueeze(x, 0);
  if (options.center) {
    const int64_t side = f.n / 2;
    if (padding == Padding::reflect && side >= x.size(1))
      fail(
          "stft: {} samples are too few for a padding of {}; use pad_mode='constant' or a smaller n_fft",
          x.size(1), side);
    x = pad(x, {side, side}, padding);
  }
  if (x.size(1) < f.n) fail("stft: {} samples are less than n_fft, {}", x.size(1), f.n);
  const Tensor frames = unfold(x, 1, f.n, f.hop) * f.window;
  const Norm norm = options.normalized ? Norm::ortho : Norm::backward;
  const Tensor z = options.onesided ? rfft(frames, {}, -1, norm)
                                    : fft(complex(frames), {}, -1, norm),
               by_frequency = to(transpose(z, 1, 2), given.dtype());
  return given.dim() == 1 ? squeeze(by_frequency, 0) : by_frequency;
}

Tensor istft(const Tensor& given, const Frames& options, std::optional<int64_t> length) {
  if ((given.dim() != 3 && given.dim() != 4) || given.size(-1) != 2)
    fail(
        "istft: z is complex, (frequencies x frames x 2) or (batch x frequencies x frames x 2), got {}",
        given.shape());
  check_float("istft", given);
  Tensor z = to(given, compute_dtype(given.dtype()));
  const Framing f("istft", options, z);
  z = transpose(given.dim() == 3 ? unsqueeze(z, 0) : z, 1, 2);
  const int64_t rows = options.onesided ? f.n / 2 + 1 : f.n, frames = z.size(1);
  if (z.size(2) != rows || frames == 0)
    fail("istft: {} has {} frequencies and {} frames; n_fft {} needs {} frequencies and a frame",
         given.shape(), z.size(2), frames, f.n, rows);
  const Tensor signal = irfft(slice(z, 2, 0, f.n / 2 + 1), f.n, -1,
                              options.normalized ? Norm::ortho : Norm::backward) *
                        f.window;
  Tensor y = overlap_add(signal, f.hop);
  const Tensor squares = expand(square(f.window), {1, frames, f.n});
  const int64_t total = y.size(1), begin = options.center ? f.n / 2 : 0,
                end = length           ? begin + *length
                      : options.center ? total - f.n / 2
                                       : total,
                kept = std::min(end, total) - begin;
  if (length && *length < 1) fail("istft: length is {}, it must be at least 1", *length);
  if (kept < 1) fail("istft: {} frames leave no samples after center's padding is removed", frames);
  const Tensor envelope = slice(overlap_add(squares, f.hop), 1, begin, kept);
  if (amin(envelope).item() < 1e-11)
    fail(
        "istft: the squared windows of hop_length {} add up to 0 at a sample, which no frame determines; "
        "use a smaller hop_length or another window",
        f.hop);
  y = to(pad(slice(y, 1, begin, kept) / envelope, {0, end - begin - kept}), given.dtype());
  return given.dim() == 3 ? squeeze(y, 0) : y;
}

Tensor hamming_window(int64_t n, bool periodic, double alpha, double beta, Dtype dtype) {
  return window("hamming_window", n, periodic, dtype,
                [&](const Tensor& x) { return cos(x) * -beta + alpha; });
}
Tensor hann_window(int64_t n, bool periodic, Dtype dtype) {
  return window("hann_window", n, periodic, dtype,
                [](const Tensor& x) { return square(sin(x / 2.0)); });
}
Tensor blackman_window(int64_t n, bool periodic, Dtype dtype) {
  return window("blackman_window", n, periodic, dtype,
                [](const Tensor& x) { return cos(x * 2.0) * 0.08 - cos(x) * 0.5 + 0.42; });
}
Tensor bartlett_window(int64_t n, bool periodic, Dtype dtype) {
  return window("bartlett_window", n, periodic, dtype,
                [](const Tensor& x) { return 1.0 - mt::abs(x / kPi - 1.0); });
}
Tensor kaiser_window(int64_t n, bool periodic, double beta, Dtype dtype) {
  return window("kaiser_window", n, periodic, dtype, [&](const Tensor& x) {
    return i0(sqrt(relu(1.0 - square(x / kPi - 1.0))) * beta) / i0(scalar(beta, Dtype::f64));
  });
}

}  // namespace mt::fft
