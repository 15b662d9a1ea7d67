// fft.h -- discrete Fourier transforms, as torch.fft; complex tensors are pairs of reals
//
// There is no complex dtype, because every function of the engine would have to know it for the few
// of this file. A complex tensor z is a float tensor whose last dimension is (real, imaginary), as
// torch.view_as_real returns it. x is real, z complex; the complex transforms also take a real
// tensor, whose last size is not 2. Dimensions of z count without the last, as in PyTorch. Tensors
// of a GPU are copied to the CPU, and the results back.
#pragma once
#include <optional>

#include "engine/ops/rearrange.h"

namespace mt::fft {

/// Which direction is divided by the number of elements; `ortho`: each by its square root.
enum class Norm { backward, ortho, forward };
constexpr std::array<const char*, 3> names_of(Norm) { return {"backward", "ortho", "forward"}; }

/// From complex to complex. n: the input is cut or padded with zeros to n elements.
Tensor fft(const Tensor& z, std::optional<int64_t> n = {}, Dim dim = -1, Norm = Norm::backward);
Tensor ifft(const Tensor& z, std::optional<int64_t> n = {}, Dim dim = -1, Norm = Norm::backward);
/// From real x to the frequencies 0 .. n / 2, and back: n is the number of real elements.
Tensor rfft(const Tensor& x, std::optional<int64_t> n = {}, Dim dim = -1, Norm = Norm::backward);
Tensor irfft(const Tensor& z, std::optional<int64_t> n = {}, Dim dim = -1, Norm = Norm::backward);
/// Over several dimensions, all by default; s: their sizes, of which -1 is unchanged. rfftn and irfftn
/// halve the last of the dimensions. `name`: for messages.
Tensor fftn(const Tensor& z, const Shape& s = {}, const Dims& dims = {}, Norm = Norm::backward,
            const char* name = "fftn");
Tensor ifftn(const Tensor& z, const Shape& s = {}, const Dims& dims = {}, Norm = Norm::backward,
             const char* name = "ifftn");
Tensor rfftn(const Tensor& x, const Shape& s = {}, const Dims& dims = {}, Norm = Norm::backward,
             const char* name = "rfftn");
Tensor irfftn(const Tensor& z, const Shape& s = {}, const Dims& dims = {}, Norm = Norm::backward,
              const char* name = "irfftn");

/// The frequencies of fft's elements, in cycles per unit of d, the distance between samples; rfftfreq:
/// of rfft's.
Tensor fftfreq(int64_t n, double d = 1, Dtype = default_dtype());
Tensor rfftfreq(int64_t n, double d = 1, Dtype = default_dtype());
/// Moves frequency 0 to the middle of dimensions, all by default, and back.
Tensor fftshift(const Tensor&, const Dims& dims = {}, std::optional<bool> complex = {},
                const char* name = "fftshift");
Tensor ifftshift(const Tensor&, const Dims& dims = {}, std::optional<bool> complex = {});

/// Complex tensors of their parts (im may be undefined), and of sizes and angles.
Tensor complex(const Tensor& re, const Tensor& im = {});
Tensor polar(const Tensor& abs, const Tensor& angle);
Tensor abs(const Tensor& z);
Tensor angle(const Tensor& z);
Tensor conj(const Tensor& z);
/// The product, which broadcasts.
Tensor mul(const Tensor& z, const Tensor& w);

// ---- short-time transforms ---------------------------------------------------------------------

/// The options of stft and istft; by default hop is n_fft / 4, win_length n_fft and the window ones.
struct Frames {
  int64_t n_fft;
  std::optional<int64_t> hop = {}, win_length = {};
  Tensor window = {};
  bool center = true, normalized = false, onesided = true;
};
/// [.. x samples] to complex [.. x frequencies x frames]; `center` pads n_fft / 2 on both sides.
Tensor stft(const Tensor& x, const Frames&, Padding = Padding::reflect);
/// The inverse by least squares. Throws Error where the squared windows add up to less than 1e-11.
Tensor istft(const Tensor& z, const Frames&, std::optional<int64_t> length = {});

/// Windows of n samples: periodic, for a transform of n, or symmetric.
Tensor hann_window(int64_t n, bool periodic = true, Dtype = default_dtype());
Tensor hamming_window(int64_t n, bool periodic = true, double alpha = 0.54, double beta = 0.46,
                      Dtype = default_dtype());
Tensor blackman_window(int64_t n, bool periodic = true, Dtype = default_dtype());
Tensor bartlett_window(int64_t n, bool periodic = true, Dtype = default_dtype());

}  // namespace mt::fft
